"""The multi-token drafter: Transformers' Gemma 4 assistant, trained on a frozen target.

All its layers read the target's K/V from one fixed position. Training asks all positions that the model writes after at
once, as independent queries: the query after token p sees keys 0 to p, the target's hidden state at p and token p + 1,
and drafts what the target itself would say next (not what the data says: a draft counts when the target agrees).
"""

from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn
from transformers import Gemma4AssistantConfig, Gemma4AssistantForCausalLM

from training.data import ROW_WRITTEN, Batches
from training.forward import FastLoss
from training.model import FULL, HIDDEN, SLIDING, VOCABULARY, text_config
from training.optimise import fit

DRAFTS = 3
RATE = 2e-3
# Each further draft counts less: it only helps when those before it were right.
DISCOUNT = 0.8


def config() -> Gemma4AssistantConfig:
    """Four layers of hidden size 64, three sliding and one full, without a clustered head."""
    text = {
        **text_config(),
        "hidden_size": 64,
        "intermediate_size": 256,
        "num_hidden_layers": 4,
        "num_kv_shared_layers": 4,
        "layer_types": [SLIDING] * 3 + [FULL],
        "hidden_size_per_layer_input": 0,
        "vocab_size_per_layer_input": 0,
        "use_double_wide_mlp": False,
        "tie_word_embeddings": True,
        "final_logit_softcapping": None,
        "model_type": "gemma4_text",
    }
    return Gemma4AssistantConfig(text_config=text, backbone_hidden_size=HIDDEN)


def create() -> Gemma4AssistantForCausalLM:
    """A new drafter."""
    assistant = Gemma4AssistantForCausalLM(config())
    for parameter in assistant.parameters():
        if parameter.dim() > 1:
            nn.init.normal_(parameter, std=0.02)
    assistant.lm_head.weight = assistant.model.embed_tokens.weight
    # Transformers 5.24 slices per-layer inputs here, which a drafter does not have, and fails on several queries.
    assistant.model._maybe_slice_kv_shared_inputs = lambda hidden, inputs, rope, masks, *_, **__: (
        hidden,
        inputs,
        rope,
        masks,
    )
    return assistant


def restore(assistant: Gemma4AssistantForCausalLM, folder: Path) -> None:
    """Starts from an exported drafter; only the tied head may be absent."""
    tensors = {name: tensor.float() for name, tensor in load_file(folder / "model.safetensors").items()}
    missing, unexpected = assistant.load_state_dict(tensors, strict=False)
    if set(missing) - {"lm_head.weight"} or unexpected:
        raise ValueError(f"{folder} is another drafter: missing {missing}, unexpected {unexpected}")


class DraftLoss:
    """Callable for `fit`: drafts where the model writes, compares with the target."""

    def __init__(self, target: FastLoss, assistant: Gemma4AssistantForCausalLM, batches: Batches):
        self.target, self.assistant, self.batches = target, assistant, batches

    def _draft(self, tokens, hidden, masks, positions, key_values) -> tuple[torch.Tensor, torch.Tensor]:
        """Logits and the projected hidden state that the next draft continues from."""
        embedding = self.target.model.text.embed_tokens(tokens).detach()
        drafted = self.assistant.model(
            input_ids=None,
            inputs_embeds=self.assistant.pre_projection(torch.cat([embedding, hidden], -1)),
            attention_mask=masks,
            position_ids=positions,
            shared_kv_states=key_values,
            use_cache=False,
        ).last_hidden_state
        return self.assistant.lm_head(drafted), self.assistant.post_projection(drafted)

    def __call__(self) -> tuple[torch.Tensor, torch.Tensor]:
        """The loss over all drafts, and the share of first drafts that are right."""
        batch = self.batches.current
        ids, documents = batch.ids, batch.documents
        with torch.autocast(ids.device.type, enabled=False):
            said = self.target.says(batch)
        # The query after token p reads the hidden state at p and token p + 1, and drafts token p + 2.
        follows = documents[:, :-2] == documents[:, 1:-1]
        within = (documents[:, :-2] == documents[:, 2:]) & (batch.weights[:, 2:] > 0)
        room = ids.shape[1] - DRAFTS - 1
        first, index = (follows & within)[:, :room].float().topk(min(ROW_WRITTEN, room), dim=1)
        hidden = said.hidden.gather(1, index.unsqueeze(-1).expand(-1, -1, HIDDEN))
        positions = said.positions.gather(1, index + 1)
        at = index[:, None, :, None].expand(-1, -1, -1, documents.shape[1])
        masks = {kind: bias.gather(2, at) for kind, bias in said.biases.items()}
        document = documents.gather(1, index)
        total, shown = 0.0, 0.0
        for depth in range(DRAFTS):
            tokens = ids.gather(1, index + 1 + depth)
            logits, hidden = self._draft(tokens, hidden, masks, positions, said.key_values)
            after = index + 2 + depth
            counted = first * (documents.gather(1, after) == document) * (batch.weights.gather(1, after) > 0)
            wanted = said.tokens.gather(1, index + 1 + depth)
            each = F.cross_entropy(logits.reshape(-1, VOCABULARY).float(), wanted.reshape(-1), reduction="none")
            count = counted.sum().clamp_min(1)
            total = total + (each.view_as(counted) * counted).sum() / count * DISCOUNT**depth
            if depth == 0:
                shown = ((logits.argmax(-1) == wanted).float() * counted).sum() / count
        return total, shown


def train(target: FastLoss, assistant, batches: Batches, steps: int, device: str, seconds: float | None) -> None:
    """Trains the drafter; the target must be frozen."""
    groups = [{"params": [parameter for parameter in assistant.parameters() if parameter.requires_grad]}]
    fit(
        groups,
        DraftLoss(target, assistant, batches),
        batches.draw,
        steps=steps,
        rate=RATE,
        device=device,
        label="drafter, share of first drafts right",
        mixed_precision=device == "cuda",
        seconds=seconds,
    )


def export(assistant: Gemma4AssistantForCausalLM, folder: Path) -> None:
    """Writes the drafter in bf16, in the layout of the official assistant."""
    folder.mkdir(parents=True, exist_ok=True)
    assistant.to(torch.bfloat16).save_pretrained(folder)
