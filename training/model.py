"""The tiny model: Transformers' own Gemma 4 text model with its linears and tables made quantisation-aware.

Using the published implementation for the forward pass means that the trained model is a Gemma 4 by construction; only
rounding is added. This file holds the geometry and nothing else does.
"""

import torch
import torch.nn.functional as F
from torch import nn
from transformers import Gemma4TextConfig, Gemma4TextModel

from training.quantise import Head, Mode, QuantisedEmbedding, QuantisedLinear

LAYERS, OWN_LAYERS = 10, 5
HIDDEN, HEADS, HEAD_DIM, FULL_HEAD_DIM = 256, 4, 64, 128
FFN, PER_LAYER_WIDTH, VOCABULARY, WINDOW = 512, 32, 4096, 128
SOFT_CAP = 30.0
EMBEDDING_BITS, PER_LAYER_TABLE_BITS, ATTENTION_BITS, PER_LAYER_LINEAR_BITS = 2, 4, 4, 8
OWN_FFN_BITS, SHARED_FFN_BITS = 4, 2

FULL, SLIDING = "full_attention", "sliding_attention"
LAYER_TYPES = [FULL if layer % 5 == 4 else SLIDING for layer in range(LAYERS)]
ROPE = {
    FULL: {"partial_rotary_factor": 0.25, "rope_theta": 1000000.0, "rope_type": "proportional"},
    SLIDING: {"rope_theta": 10000.0, "rope_type": "default"},
}


def text_config() -> dict:
    """The `text_config` of config.json."""
    return {
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "intermediate_size": FFN,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS,
        "num_key_value_heads": 1,
        "head_dim": HEAD_DIM,
        "global_head_dim": FULL_HEAD_DIM,
        "hidden_activation": "gelu_pytorch_tanh",
        "max_position_embeddings": 8192,
        "rms_norm_eps": 1e-6,
        "sliding_window": WINDOW,
        "layer_types": LAYER_TYPES,
        "rope_parameters": ROPE,
        "final_logit_softcapping": SOFT_CAP,
        "vocab_size_per_layer_input": VOCABULARY,
        "hidden_size_per_layer_input": PER_LAYER_WIDTH,
        "num_kv_shared_layers": LAYERS - OWN_LAYERS,
        "use_double_wide_mlp": True,
        "attention_k_eq_v": False,
        "enable_moe_block": False,
        "tie_word_embeddings": False,
        "pad_token_id": 0,
        "eos_token_id": 1,
        "bos_token_id": 2,
        "attention_bias": False,
    }


def producer(layer: int) -> int:
    """The layer whose K/V a layer reads: itself, or the last own one of its type."""
    if layer < OWN_LAYERS:
        return layer
    return max(own for own in range(OWN_LAYERS) if LAYER_TYPES[own] == LAYER_TYPES[layer])


class TinyModel(nn.Module):
    """Text model and head, in one of the modes of quantise.py."""

    def __init__(self):
        super().__init__()
        config = Gemma4TextConfig(**text_config())
        config._attn_implementation = "sdpa"
        self.text = Gemma4TextModel(config)
        self.head = Head(VOCABULARY, HIDDEN, SOFT_CAP)
        self._initialise()
        for name, module in self.text.named_modules():
            # The per-layer model projection stays float in the official format.
            if isinstance(module, nn.Linear) and name != "per_layer_model_projection":
                QuantisedLinear.adopt(module)
        self.text.embed_tokens = QuantisedEmbedding(self.text.embed_tokens, HIDDEN**0.5)
        self.text.embed_tokens_per_layer = QuantisedEmbedding(self.text.embed_tokens_per_layer, PER_LAYER_WIDTH**0.5)

    def _initialise(self) -> None:
        for module in self.text.modules():
            if isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, std=0.02)
        nn.init.normal_(self.text.embed_tokens.weight, std=0.02)
        nn.init.normal_(self.text.embed_tokens_per_layer.weight, std=0.02)

    def tables(self) -> list[nn.Parameter]:
        """Embedding, per-layer table and head: trained at a higher rate, since each row is seen rarely."""
        return [self.text.embed_tokens.weight, self.text.embed_tokens_per_layer.weight, self.head.weight]

    def set_mode(self, mode: Mode) -> None:
        """Switches every layer."""
        self.head.mode = mode
        for module in self.text.modules():
            if isinstance(module, (QuantisedLinear, QuantisedEmbedding)):
                module.mode = mode

    def prepare(self) -> None:
        """Creates all steps at the bit widths of the official E2B release."""
        self.head.prepare()
        self.text.embed_tokens.prepare(EMBEDDING_BITS, 1)
        self.text.embed_tokens_per_layer.prepare(PER_LAYER_TABLE_BITS, LAYERS)
        for index, layer in enumerate(self.text.layers):
            attention, ffn, own = layer.self_attn, layer.mlp, index < OWN_LAYERS
            attention.q_proj.prepare(ATTENTION_BITS)
            if own:
                attention.k_proj.prepare(ATTENTION_BITS, attention.q_proj)
                attention.v_proj.prepare(ATTENTION_BITS, attention.q_proj)
            attention.o_proj.prepare(ATTENTION_BITS)
            ffn_bits = OWN_FFN_BITS if own else SHARED_FFN_BITS
            ffn.gate_proj.prepare(ffn_bits)
            ffn.up_proj.prepare(ffn_bits, ffn.gate_proj)
            ffn.down_proj.prepare(ffn_bits)
            layer.per_layer_input_gate.prepare(PER_LAYER_LINEAR_BITS)
            layer.per_layer_projection.prepare(PER_LAYER_LINEAR_BITS)

    def hidden(self, ids: torch.Tensor, masks: dict, positions: torch.Tensor, **options):
        """Transformers' output for packed rows: masks and positions by document, no cache."""
        return self.text(input_ids=ids, attention_mask=masks, position_ids=positions, use_cache=False, **options)


def masks_and_positions(documents: torch.Tensor) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """Attention masks by layer type, and positions that restart at every document.

    `documents` is [batch x length]: the number of the conversation a token belongs to, 0 for padding. Several
    conversations share a row; none may see another.
    """
    length = documents.shape[1]
    index = torch.arange(length, device=documents.device)
    same = documents[:, :, None] == documents[:, None, :]
    causal = same & (index[None, :, None] >= index[None, None, :])
    near = (index[:, None] - index[None, :]) < WINDOW
    previous = F.pad(documents, (1, 0), value=-1)[:, :-1]
    starts = torch.where(previous != documents, index[None, :], torch.zeros_like(index)[None, :])
    positions = index[None, :] - starts.cummax(1).values
    return {FULL: causal[:, None], SLIDING: (causal & near)[:, None]}, positions
