"""A preallocated KV cache, as a transformers Cache, whose rows have different lengths."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor
from transformers.cache_utils import Cache, CacheLayerMixin


@dataclass(frozen=True)
class Window:
    """The cache positions of one forward pass. All index tensors are int64; B is the batch, N the tokens written."""

    rows: Tensor | None
    """[B] cache rows of the batch; None: the first `num_rows` rows, read without a copy."""
    num_rows: int
    num_keys: int
    """Number of keys that are read of each row: at least the longest row's."""
    batch_index: Tensor
    """[N] rows of the written tokens in the batch."""
    query_index: Tensor
    cache_row: Tensor
    """[N] rows of the written tokens in the cache."""
    position: Tensor


class RaggedLayer(CacheLayerMixin):
    """Keys and values [rows, KV, max_context, D] of one layer; made at the first forward pass."""

    is_sliding = False

    def __init__(self, rows: int, max_context: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.rows, self.max_context = rows, max_context
        self.window: Window | None = None

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        """Allocates zeros: masked keys have weight 0, and 0 × uninitialised memory may be NaN."""
        _, heads, _, size = key_states.shape
        self.keys = key_states.new_zeros(self.rows, heads, self.max_context, size)
        self.values = value_states.new_zeros(self.rows, heads, self.max_context, value_states.shape[-1])
        self.is_initialized = True

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        """Writes the window's tokens and returns its rows' keys and values, [B, KV, num_keys, D] each."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        assert self.window is not None and self.keys is not None and self.values is not None
        return _exchange(self.keys, key_states, self.window), _exchange(self.values, value_states, self.window)

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Returns (keys, offset of the first key) of the current window."""
        assert self.window is not None
        return self.window.num_keys, 0

    def get_seq_length(self) -> int:
        """Returns the number of keys of the current window; callers pass positions, because rows differ in length."""
        return 0 if self.window is None else self.window.num_keys

    def get_max_length(self) -> int:
        """Returns the number of tokens that a row can hold."""
        return self.max_context


class RaggedCache(Cache):
    """One RaggedLayer per model layer. Set the window before each forward pass."""

    def __init__(self, num_layers: int, rows: int, max_context: int) -> None:
        self._ragged = [RaggedLayer(rows, max_context) for _ in range(num_layers)]
        super().__init__(layers=list(self._ragged))

    def set_window(self, window: Window) -> None:
        """Sets the window of the next forward pass."""
        for layer in self._ragged:
            layer.window = window

    def clear_row(self, row: int) -> None:
        """Zeroes a row, so that non-finite entries cannot reach its next owner through masked positions."""
        for layer in self._ragged:
            if layer.keys is not None and layer.values is not None:
                layer.keys[row].zero_()
                layer.values[row].zero_()

    def copy_row(self, source: int, target: int, length: int) -> None:
        """Copies the first `length` positions of a row to another one."""
        for layer in self._ragged:
            if layer.keys is not None and layer.values is not None:
                layer.keys[target, :, :length] = layer.keys[source, :, :length]
                layer.values[target, :, :length] = layer.values[source, :, :length]


def _exchange(store: Tensor, states: Tensor, window: Window) -> Tensor:
    store[window.cache_row, :, window.position] = states[window.batch_index, :, window.query_index]
    view = store[: window.num_rows] if window.rows is None else store
    view = view[:, :, : window.num_keys]
    return view if window.rows is None else view.index_select(0, window.rows)
