#include "shapes/autocast.h"

#include "base/text.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace stator::shapes {

namespace {

// Operators with a rule here that torch casts to the lower precision, on CPUs and on CUDA devices.
constexpr std::array<std::string_view, 14> kLowered = {"addbmm",
                                                       "addmm",
                                                       "baddbmm",
                                                       "bmm",
                                                       "conv1d",
                                                       "conv2d",
                                                       "conv3d",
                                                       "conv_transpose1d",
                                                       "conv_transpose2d",
                                                       "conv_transpose3d",
                                                       "linear",
                                                       "matmul",
                                                       "mm",
                                                       "scaled_dot_product_attention"};

// Operators that are cast in other ways: to float32, or to the widest of their arguments. On CPUs:
constexpr std::string_view kOtherwiseOnCpu[] = {"adaptive_avg_pool3d",
                                                "adaptive_max_pool3d",
                                                "avg_pool3d",
                                                "binary_cross_entropy",
                                                "binary_cross_entropy_with_logits",
                                                "cat",
                                                "cdist",
                                                "cholesky",
                                                "cholesky_ex",
                                                "cholesky_inverse",
                                                "cholesky_solve",
                                                "column_stack",
                                                "concat",
                                                "concatenate",
                                                "cond",
                                                "conv_tbc",
                                                "cosine_embedding_loss",
                                                "cross_entropy",
                                                "ctc_loss",
                                                "dstack",
                                                "eig",
                                                "eigh",
                                                "eigvals",
                                                "eigvalsh",
                                                "fft",
                                                "fft2",
                                                "fftn",
                                                "fractional_max_pool2d",
                                                "fractional_max_pool3d",
                                                "geqrf",
                                                "grid_sample",
                                                "grid_sampler",
                                                "grid_sampler_2d",
                                                "grid_sampler_3d",
                                                "hfft",
                                                "hfft2",
                                                "hfftn",
                                                "hinge_embedding_loss",
                                                "householder_product",
                                                "hstack",
                                                "huber_loss",
                                                "ifft",
                                                "ifft2",
                                                "ifftn",
                                                "ihfft",
                                                "ihfft2",
                                                "ihfftn",
                                                "index_copy",
                                                "inv",
                                                "inv_ex",
                                                "inverse",
                                                "irfft",
                                                "irfft2",
                                                "irfftn",
                                                "istft",
                                                "kl_div",
                                                "l1_loss",
                                                "lstsq",
                                                "lu_solve",
                                                "margin_ranking_loss",
                                                "matrix_rank",
                                                "max_pool3d",
                                                "max_unpool1d",
                                                "max_unpool2d",
                                                "max_unpool3d",
                                                "mse_loss",
                                                "multi_margin_loss",
                                                "multilabel_margin_loss",
                                                "multilabel_soft_margin_loss",
                                                "nanquantile",
                                                "nll_loss",
                                                "orgqr",
                                                "ormqr",
                                                "pad",
                                                "pinv",
                                                "pinverse",
                                                "poisson_nll_loss",
                                                "polar",
                                                "prelu",
                                                "prod",
                                                "qr",
                                                "quantile",
                                                "rfft",
                                                "rfft2",
                                                "rfftn",
                                                "row_stack",
                                                "smooth_l1_loss",
                                                "soft_margin_loss",
                                                "solve",
                                                "stack",
                                                "stft",
                                                "svd",
                                                "svdvals",
                                                "tensorinv",
                                                "tensorsolve",
                                                "trace",
                                                "triangular_solve",
                                                "triplet_margin_loss",
                                                "vecdot",
                                                "view_as_complex",
                                                "vstack"};
// Among those that only move data, on CUDA devices:
constexpr std::string_view kOtherwiseOnCuda[] = {"index_put", "scatter_add"};

// matmul for torch.matmul, Tensor.__matmul__ and Tensor.__rmatmul__; an empty name for what has none.
std::string operatorName(PyObject* target, bool& in_place) {
  // A built-in function makes its name anew each time it is asked.
  Ref<> name = stealRef(PyObject_GetAttrString(target, "__name__"));
  if (!name) {
    PyErr_Clear();
    return {};
  }
  std::string text = utf8(name.get());
  if (text.size() > 4 && text.starts_with("__") && text.ends_with("__")) {
    text = text.substr(2, text.size() - 4);
    if (text == "rmatmul") text = "matmul";
    in_place = text.starts_with('i') && text != "index" && text != "invert";
  } else {
    in_place = text.ends_with('_');
  }
  return text;
}

template <class Names>
bool names(const Names& list, std::string_view name) {
  return std::find(std::begin(list), std::end(list), name) != std::end(list);
}

bool isOf(const OpRow& row, std::span<const OpRow> family) {
  return &row >= family.data() && &row < family.data() + family.size();
}

// Neither computes nor calls what does.
bool movesData(const OpRow& row) {
  return isOf(row, viewRows()) || isOf(row, pieceRows()) || isOf(row, castRows()) ||
         isOf(row, indexingRows()) || isOf(row, factoryRows()) || isOf(row, queryRows());
}

// Consists of other operators, or may.
bool isComposed(const OpRow& row) { return isOf(row, matmulRows()) || isOf(row, recurrentRows()); }

}  // namespace

Cast castOf(PyObject* target, const OpRow& row, const Workspace& workspace, const State& state) {
  if (workspace.tensors().empty()) return Cast::kNone;
  const DeviceType device = workspace.tensors()[0]->tensor->device;
  for (const Arg* arg : workspace.tensors()) {
    if (arg->tensor->device != device) return Cast::kUnknown;
  }
  const bool on_cpu = device == DeviceType::CPU;
  if (!on_cpu && device != DeviceType::CUDA) return Cast::kUnknown;
  if (!(on_cpu ? state.autocast_cpu : state.autocast_cuda)) return Cast::kNone;
  bool in_place = false;
  const std::string name = operatorName(target, in_place);
  if (name.empty()) return Cast::kUnknown;
  if (names(kLowered, name)) return in_place ? Cast::kUnknown : Cast::kLower;
  if (on_cpu ? names(kOtherwiseOnCpu, name) : names(kOtherwiseOnCuda, name)) return Cast::kUnknown;
  if (movesData(row)) return Cast::kNone;
  return on_cpu && !isComposed(row) ? Cast::kNone : Cast::kUnknown;
}

}  // namespace stator::shapes
