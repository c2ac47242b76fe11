// Whole layers that torch computes in one call: recurrent networks, multi-head attention, weight norm.
#include "shapes/call.h"

namespace stator::shapes {

namespace {

bool isFloat(const Arg& arg) {
  return arg.isTensor() &&
         (arg.tensor->dtype == DType::Float || arg.tensor->dtype == DType::Double);
}

bool isPositive(const Arg& number) {
  return (number.is(Arg::Kind::kFloat) && number.f > 0) ||
         (number.is(Arg::Kind::kInt) && number.i > 0);
}

// lstm, gru, rnn_tanh, rnn_relu(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first).
// The form for packed sequences has a tensor in the place of `params`.
bool recurrent(Call& call) {
  if (!isFloat(call[0]) || call[0].tensor->sizes.size() != 3 ||
      call[0].tensor->device != DeviceType::CPU || isZero(call[0].tensor->numel()))
    return false;
  if (!call[2].isSequence()) return false;
  const bool states = call[1].isSequence();
  if (states ? call[1].count != 2 : !call[1].isTensor()) return false;
  const Arg& hidden = states ? call[1].elements()[0] : call[1];
  if (!isFloat(hidden) || hidden.tensor->sizes.size() != 3) return false;
  int64_t layers = 1;
  bool train = false, both = false, batch_first = false, biases = true;
  if (!call.flagOr(3, true, biases) || !call.integer(4, layers) || !call.flagOr(6, false, train) ||
      !call.flagOr(7, false, both) || !call.flagOr(8, false, batch_first))
    return false;
  const TensorMeta& input = *call[0].tensor;
  const int64_t directions = both ? 2 : 1;
  if (hidden.tensor->sizes[0] != layers * directions || hidden.tensor->dtype != input.dtype)
    return false;
  if (hidden.tensor->sizes[1] != input.sizes[batch_first ? 0 : 1]) return false;
  call.out.random = train && layers > 1 && isPositive(call[5]);
  const Dim width = hidden.tensor->sizes[2] * directions;
  // Computed along the time, which is the first dim then.
  const Dim batch = input.sizes[batch_first ? 0 : 1];
  Dims strides = batch_first ? Dims{width, width * batch, 1} : Dims{width * batch, width, 1};
  call.fresh(input.dtype, {input.sizes[0], input.sizes[1], width}, std::move(strides));
  call.fresh(input.dtype, hidden.tensor->sizes);
  if (states) {
    const Arg& cell = call[1].elements()[1];
    if (!isFloat(cell) || cell.tensor->sizes.size() != 3) return false;
    call.fresh(input.dtype, cell.tensor->sizes);
  }
  call.structure(Structure::kTuple);
  return true;
}

// The result, and the weights averaged over heads or not.
bool attended(Call& call, const TensorMeta& query, Dim batch, Dim target, Dim source, int64_t heads,
              bool need_weights, bool average) {
  call.fresh(query.dtype, query.sizes);
  if (!need_weights) {
    call.constant(newRef(Py_None));
  } else if (average) {
    call.fresh(query.dtype, {batch, target, source});
  } else {
    call.fresh(query.dtype, {batch, heads, target, source});
  }
  call.structure(Structure::kTuple);
  return true;
}

bool plainQueries(Call& call) {
  for (size_t i : {0, 1, 2}) {
    if (!isFloat(call[i]) || call[i].tensor->sizes.size() != 3 || isZero(call[i].tensor->numel()))
      return false;
  }
  return call.state.other == 0 && call[0].tensor->device == DeviceType::CPU &&
         call[1].tensor->dtype == call[0].tensor->dtype &&
         call[2].tensor->dtype == call[0].tensor->dtype;
}

// F.multi_head_attention_forward, sequence first
bool multiHead(Call& call) {
  int64_t heads = 0;
  bool zeros = false, training = true, need = true, average = true, causal = false;
  if (!plainQueries(call) || !call.integer(4, heads) || call[7].given() || call[8].given() ||
      call[21].given() || call[22].given())
    return false;
  if (!call.flagOr(9, false, zeros) || !call.flagOr(13, true, training) ||
      !call.flagOr(15, true, need) || !call.flagOr(23, true, average) ||
      !call.flagOr(24, false, causal))
    return false;
  if (zeros || (causal && !call[16].given())) return false;
  const TensorMeta& query = *call[0].tensor;
  const TensorMeta& key = *call[1].tensor;
  if (query.sizes[1] != key.sizes[1] || key.sizes[0] != call[2].tensor->sizes[0] ||
      key.sizes[1] != call[2].tensor->sizes[1])
    return false;
  int64_t width = 0;
  if (!call.integer(3, width) || query.sizes[2] != width || heads <= 0 || width % heads != 0)
    return false;
  // Whether the weights require grad depends on the projections of queries and keys alone.
  const bool projection_grad = (call[5].isTensor() && call[5].tensor->requires_grad) ||
                               (call[18].isTensor() && call[18].tensor->requires_grad);
  if (need && call.anyGrad() && !projection_grad) return false;
  call.out.random = training && isPositive(call[10]);
  return attended(call, query, query.sizes[1], query.sizes[0], key.sizes[0], heads, need, average);
}

// torch._native_multi_head_attention, batch first: inference only
bool nativeMultiHead(Call& call) {
  int64_t heads = 0;
  bool need = true, average = true;
  if (!plainQueries(call) || !call.integer(4, heads) || !call.flagOr(10, true, need) ||
      !call.flagOr(11, true, average))
    return false;
  if (call.anyGrad() && call.state.grad_enabled) return false;
  const TensorMeta& query = *call[0].tensor;
  return attended(call, query, query.sizes[0], query.sizes[1], call[1].tensor->sizes[1], heads,
                  need, average);
}

// torch._transformer_encoder_layer_fwd: inference only
bool encoderLayer(Call& call) {
  if (!isFloat(call[0]) || call[0].tensor->sizes.size() != 3 ||
      call[0].tensor->device != DeviceType::CPU || isZero(call[0].tensor->numel()))
    return false;
  if (call.state.other != 0 || (call.anyGrad() && call.state.grad_enabled)) return false;
  call.fresh(call[0].tensor->dtype, call[0].tensor->sizes);
  return true;
}

// torch._weight_norm(v, g, dim)
bool weightNorm(Call& call) {
  int64_t dim = 0;
  if (!isFloat(call[0]) || !isFloat(call[1]) || !call.integerOr(2, 0, dim)) return false;
  const TensorMeta& v = *call[0].tensor;
  if (call[1].tensor->sizes.size() != v.sizes.size() || call[1].tensor->dtype != v.dtype ||
      !wrapDim(dim, v.sizes.size()))
    return false;
  for (size_t i = 0; i < v.sizes.size(); ++i) {
    if (call[1].tensor->sizes[i] != (static_cast<int64_t>(i) == dim ? v.sizes[i] : 1)) return false;
  }
  if (isZero(v.numel()) || v.sizes.size() < 2 || !isContiguous(v.sizes, v.strides)) return false;
  call.fresh(v.dtype, v.sizes);
  return true;
}

constexpr OpRow kRows[] = {
    {"torch.lstm|gru|rnn_tanh|rnn_relu",
     "input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first",
     recurrent},
    {"F.multi_head_attention_forward",
     "query, key, value, embed_dim_to_check, num_heads, in_proj_weight, in_proj_bias, bias_k, "
     "bias_v, add_zero_attn, dropout_p, out_proj_weight, "
     "out_proj_bias, training, key_padding_mask, need_weights, attn_mask, "
     "use_separate_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight, "
     "static_k, static_v, average_attn_weights, is_causal",
     multiHead},
    {"torch._native_multi_head_attention",
     "query, key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, "
     "need_weights, average_attn_weights, mask_type",
     nativeMultiHead},
    {"torch._transformer_encoder_layer_fwd",
     "src, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, "
     "norm_first, eps, norm_weight_1, norm_bias_1, norm_weight_2, "
     "norm_bias_2, ffn_weight_1, ffn_bias_1, ffn_weight_2, ffn_bias_2, mask, mask_type",
     encoderLayer},
    {"torch._weight_norm", "v, g, dim", weightNorm},
};

}  // namespace

std::span<const OpRow> recurrentRows() { return kRows; }

}  // namespace stator::shapes
