"""The loss of the quantised model as a training step computes it: the numbers of `model.py` in a fraction of the time.

Three things make it fast. The upper layers read keys and values that the lower ones wrote, so from layer 4's query on
only the positions that predict a token of the model's own are computed, a fifth of them. Each kind of layer is one
function, which `torch.compile` turns into few kernels that all layers of the kind share. Attention runs in bf16.

Parameters are those of `TinyModel`; a test keeps loss and gradients equal to the ones that Transformers' code gives.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F

from training.data import ROW_WRITTEN, Batch
from training.model import (
    FULL,
    HEADS,
    HIDDEN,
    LAYER_TYPES,
    LAYERS,
    OWN_LAYERS,
    PER_LAYER_WIDTH,
    SLIDING,
    SOFT_CAP,
    WINDOW,
    TinyModel,
    producer,
)
from training.quantise import INT8, QuantisedLinear, fake_quantise

# The last layer that writes keys and values: it and those above answer at chosen positions only.
TOP_OWN = OWN_LAYERS - 1
EPSILON = 1e-6


class Linear(NamedTuple):
    """What a quantised linear computes with."""

    weight: torch.Tensor
    weight_step: torch.Tensor
    input_step: torch.Tensor
    output_step: torch.Tensor
    limits: tuple[int, int]

    @staticmethod
    def of(linear: QuantisedLinear) -> "Linear":
        """The parameters of a module."""
        return Linear(linear.weight, linear.weight_step, linear.shared_input_step, linear.output_step, linear.limits)


class KeyValue(NamedTuple):
    """The part of a layer that writes keys and values."""

    norm: torch.Tensor
    key: Linear
    key_norm: torch.Tensor
    value: Linear


class Block(NamedTuple):
    """The rest of a layer."""

    attention_norm: torch.Tensor
    query: Linear
    query_norm: torch.Tensor
    output: Linear
    after_attention_norm: torch.Tensor
    ffn_norm: torch.Tensor
    gate: Linear
    up: Linear
    down: Linear
    after_ffn_norm: torch.Tensor
    per_layer_gate: Linear
    per_layer_projection: Linear
    after_per_layer_norm: torch.Tensor
    scalar: torch.Tensor


def normed(values: torch.Tensor, weight: torch.Tensor | None) -> torch.Tensor:
    """RMS norm along the last dimension."""
    return F.rms_norm(values, values.shape[-1:], weight, EPSILON)


def rounded(values: torch.Tensor, by: Linear) -> torch.Tensor:
    """The input of a linear as it reads it."""
    return fake_quantise(values, by.input_step, INT8)


def product(values: torch.Tensor, by: Linear) -> torch.Tensor:
    """Contract rules 1 to 3 from a rounded input on, as in `QuantisedLinear.forward`."""
    weight = fake_quantise(by.weight, by.weight_step, by.limits)
    return fake_quantise(F.linear(values, weight), by.output_step, INT8)


def linear(values: torch.Tensor, by: Linear) -> torch.Tensor:
    """A whole linear."""
    return product(rounded(values, by), by)


def rotated(values: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    """Rotary embedding."""
    half = values.shape[-1] // 2
    turned = torch.cat((-values[..., half:], values[..., :half]), -1)
    return values * cosine + turned * sine


def keys_values(hidden, cosine, sine, by: KeyValue) -> tuple[torch.Tensor, torch.Tensor]:
    """Keys and values [rows x 1 x length x head dim] of a layer's input."""
    hidden = rounded(normed(hidden, by.norm), by.key)
    keys = rotated(normed(product(hidden, by.key), by.key_norm), cosine, sine)
    return keys.unsqueeze(1), normed(product(hidden, by.value), None).unsqueeze(1)


def block(hidden, per_layer, cosine, sine, mask, keys, values, by: Block, kind: torch.dtype) -> torch.Tensor:
    """One layer from its input to its output; `kind` is the type that attention computes in."""
    rows, length, _ = hidden.shape
    dim = keys.shape[-1]
    queries = linear(normed(hidden, by.attention_norm), by.query).view(rows, length, HEADS, dim)
    queries = rotated(normed(queries, by.query_norm), cosine.unsqueeze(2), sine.unsqueeze(2)).transpose(1, 2)
    keys, values = (each.to(kind).expand(-1, HEADS, -1, -1) for each in (keys, values))
    heard = F.scaled_dot_product_attention(queries.to(kind), keys, values, attn_mask=mask, scale=1.0)
    heard = heard.transpose(1, 2).reshape(rows, length, -1).float()
    hidden = hidden + normed(linear(heard, by.output), by.after_attention_norm)

    inner = rounded(normed(hidden, by.ffn_norm), by.gate)
    inner = F.gelu(product(inner, by.gate), approximate="tanh") * product(inner, by.up)
    hidden = hidden + normed(linear(inner, by.down), by.after_ffn_norm)

    inner = F.gelu(linear(hidden, by.per_layer_gate), approximate="tanh") * per_layer
    hidden = hidden + normed(linear(inner, by.per_layer_projection), by.after_per_layer_norm)
    return hidden * by.scalar


def per_layer_inputs(ids, embedded, table, projection, norm) -> torch.Tensor:
    """Per-layer inputs [rows x length x layers x width] of as many layers as `table` and `projection` hold."""
    looked_up = F.embedding(ids, table) * PER_LAYER_WIDTH**0.5
    projected = F.linear(embedded, projection) * HIDDEN**-0.5
    shape = (*ids.shape, -1, PER_LAYER_WIDTH)
    return (normed(projected.view(shape), norm) + looked_up.view(shape)) * 2.0**-0.5


def cross_entropy(hidden, norm, weight, weight_step, limits, targets) -> torch.Tensor:
    """Loss at every position of `hidden`."""
    logits = F.linear(normed(hidden, norm), fake_quantise(weight, weight_step, limits))
    logits = torch.tanh(logits / SOFT_CAP) * SOFT_CAP
    return F.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none").view_as(targets)


def most_likely(hidden, norm, weight, weight_step, limits) -> tuple[torch.Tensor, torch.Tensor]:
    """The normed hidden states and the token of the highest logit at each; the soft cap changes no order."""
    hidden = normed(hidden, norm)
    return hidden, F.linear(hidden, fake_quantise(weight, weight_step, limits)).argmax(-1)


class Places(NamedTuple):
    """Where a batch is asked: positions that predict a written token, targets, and 0 where a row has fewer of them."""

    index: torch.Tensor
    targets: torch.Tensor
    counted: torch.Tensor


def places(ids: torch.Tensor, weights: torch.Tensor) -> Places:
    """The first `ROW_WRITTEN` positions of each row whose next token is written, filled up with others."""
    written = F.pad(weights, (0, 1))[:, 1:]
    counted, index = written.float().topk(ROW_WRITTEN, dim=1)
    return Places(index, F.pad(ids, (0, 1))[:, 1:].gather(1, index), counted)


def positions_of(documents: torch.Tensor) -> torch.Tensor:
    """Positions that restart at every document."""
    index = torch.arange(documents.shape[1], device=documents.device)
    previous = F.pad(documents, (1, 0), value=-1)[:, :-1]
    starts = torch.where(previous != documents, index, torch.zeros_like(index))
    return index - starts.cummax(1).values


def attention_bias(documents: torch.Tensor, index: torch.Tensor | None, kind: torch.dtype) -> tuple[torch.Tensor, ...]:
    """Biases [rows x 1 x queries x keys] of full and of sliding attention; queries lie at `index`, or everywhere."""
    keys = torch.arange(documents.shape[1], device=documents.device)
    at = keys.expand_as(documents) if index is None else index
    same = documents.gather(1, at)[:, :, None] == documents[:, None, :]
    distance = at[:, :, None] - keys
    causal = same & (distance >= 0)
    never = torch.full((), float("-inf"), device=documents.device, dtype=kind)
    full, near = (torch.where(seen, torch.zeros_like(never), never) for seen in (causal, causal & (distance < WINDOW)))
    return full.unsqueeze(1), near.unsqueeze(1)


COMPILED = (
    keys_values,
    block,
    per_layer_inputs,
    cross_entropy,
    most_likely,
    places,
    positions_of,
    attention_bias,
)


class FastLoss:
    """Callable for a batch: the mean loss over the tokens that the model writes."""

    def __init__(self, model: TinyModel, kind: torch.dtype, compiled: bool):
        self.model, self.kind = model, kind
        torch._dynamo.config.recompile_limit = 64
        self.run = {
            function.__name__: torch.compile(function, dynamic=False) if compiled else function for function in COMPILED
        }
        rotary = model.text.rotary_emb
        frequencies = {layer: getattr(rotary, f"{layer}_inv_freq") for layer in set(LAYER_TYPES)}
        self.frequencies = {layer: torch.cat((half, half)).float() for layer, half in frequencies.items()}

    def _block(self, index: int) -> Block:
        layer = self.model.text.layers[index]
        attention, ffn = layer.self_attn, layer.mlp
        return Block(
            layer.input_layernorm.weight,
            Linear.of(attention.q_proj),
            attention.q_norm.weight,
            Linear.of(attention.o_proj),
            layer.post_attention_layernorm.weight,
            layer.pre_feedforward_layernorm.weight,
            Linear.of(ffn.gate_proj),
            Linear.of(ffn.up_proj),
            Linear.of(ffn.down_proj),
            layer.post_feedforward_layernorm.weight,
            Linear.of(layer.per_layer_input_gate),
            Linear.of(layer.per_layer_projection),
            layer.post_per_layer_input_norm.weight,
            layer.layer_scalar,
        )

    def _key_value(self, index: int) -> KeyValue:
        layer = self.model.text.layers[index]
        attention = layer.self_attn
        key, value = Linear.of(attention.k_proj), Linear.of(attention.v_proj)
        return KeyValue(layer.input_layernorm.weight, key, attention.k_norm.weight, value)

    def _angles(self, positions: torch.Tensor) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
        """Cosines and sines by kind of layer."""
        angles = {layer: positions[..., None].float() * each for layer, each in self.frequencies.items()}
        return {layer: (each.cos(), each.sin()) for layer, each in angles.items()}

    def _lower(self, hidden, per_layer, angles, near) -> tuple[torch.Tensor, dict[int, tuple[torch.Tensor, ...]]]:
        """The layers that write keys and values, at all positions: the last one's input, and what each wrote."""
        written = {}
        for index in range(OWN_LAYERS):
            own_angles = angles[LAYER_TYPES[index]]
            written[index] = self.run["keys_values"](hidden, *own_angles, self._key_value(index))
            if index < TOP_OWN:
                by = self._block(index)
                hidden = self.run["block"](
                    hidden, per_layer[:, :, index], *own_angles, near, *written[index], by, self.kind
                )
        return hidden, written

    def _upper(self, hidden, per_layer, angles, biases, written) -> torch.Tensor:
        """The rest, at the positions of `hidden`."""
        for index in range(TOP_OWN, LAYERS):
            kind, own = LAYER_TYPES[index], per_layer[:, :, index - TOP_OWN]
            read, by = written[producer(index)], self._block(index)
            hidden = self.run["block"](hidden, own, *angles[kind], biases[kind], *read, by, self.kind)
        return hidden

    def _per_layer(self, ids, hidden, layers: slice) -> torch.Tensor:
        text = self.model.text
        columns = slice(layers.start * PER_LAYER_WIDTH, layers.stop * PER_LAYER_WIDTH)
        table = text.embed_tokens_per_layer.table()[:, columns]
        projection, norm = text.per_layer_model_projection.weight[columns], text.per_layer_projection_norm.weight
        return self.run["per_layer_inputs"](ids, hidden, table, projection, norm)

    def _embedded(self, ids: torch.Tensor) -> torch.Tensor:
        return F.embedding(ids, self.model.text.embed_tokens.table()) * HIDDEN**0.5

    def _biases(self, documents, index) -> dict[str, torch.Tensor]:
        return dict(zip((FULL, SLIDING), self.run["attention_bias"](documents, index, self.kind), strict=True))

    def __call__(self, batch: Batch) -> torch.Tensor:
        """The mean loss."""
        asked = self.run["places"](batch.ids, batch.weights)
        positions = self.run["positions_of"](batch.documents)
        near = self._biases(batch.documents, None)[SLIDING]
        hidden = self._embedded(batch.ids)
        wide = asked.index.unsqueeze(-1).expand(-1, -1, HIDDEN)
        low = self._per_layer(batch.ids, hidden, slice(0, TOP_OWN))
        high = self._per_layer(batch.ids.gather(1, asked.index), hidden.gather(1, wide), slice(TOP_OWN, LAYERS))
        hidden, written = self._lower(hidden, low, self._angles(positions), near)
        angles = self._angles(positions.gather(1, asked.index))
        hidden = self._upper(hidden.gather(1, wide), high, angles, self._biases(batch.documents, asked.index), written)
        head, norm = self.model.head, self.model.text.norm.weight
        each = self.run["cross_entropy"](hidden, norm, head.weight, head.weight_step, head.limits, asked.targets)
        return (each * asked.counted).sum() / asked.counted.sum()

    @torch.no_grad()
    def says(self, batch: Batch) -> "Said":
        """What the model says after every position, and what a drafter reads of it."""
        positions = self.run["positions_of"](batch.documents)
        angles, biases = self._angles(positions), self._biases(batch.documents, None)
        hidden = self._embedded(batch.ids)
        per_layer = self._per_layer(batch.ids, hidden, slice(0, LAYERS))
        hidden, written = self._lower(hidden, per_layer[:, :, :TOP_OWN], angles, biases[SLIDING])
        hidden = self._upper(hidden, per_layer[:, :, TOP_OWN:], angles, biases, written)
        head = self.model.head
        hidden, tokens = self.run["most_likely"](
            hidden, self.model.text.norm.weight, head.weight, head.weight_step, head.limits
        )
        key_values = {kind: written[producer(LAYERS - 1 - place)] for place, kind in enumerate((FULL, SLIDING))}
        return Said(hidden, tokens, positions, biases, key_values)


class Said(NamedTuple):
    """A batch as the target sees it.

    Last hidden states, the most likely next tokens, positions, attention biases by kind of layer, and the keys and
    values that the shared layers read.
    """

    hidden: torch.Tensor
    tokens: torch.Tensor
    positions: torch.Tensor
    biases: dict[str, torch.Tensor]
    key_values: dict[str, tuple[torch.Tensor, torch.Tensor]]
