#include "tensor/meta_of.h"

#include "tensor/impl_fields.h"

namespace stator::tensor {

shapes::TensorMeta metaOf(PyObject* tensor) {
  const at::Tensor& value = reinterpret_cast<THPVariable*>(tensor)->cdata;
  const c10::TensorImpl& impl = *value.unsafeGetTensorImpl();
  shapes::TensorMeta meta;
  const c10::impl::SizesAndStrides& shape = ImplFields::shape(impl);
  meta.layout = static_cast<int8_t>(impl.layout());
  meta.sizes.assign(shape.sizes_data(), shape.sizes_data() + shape.size());
  if (impl.layout() == c10::kStrided) meta.strides.assign(shape.strides_data(), shape.strides_data() + shape.size());
  meta.dtype = c10::typeMetaToScalarType(impl.dtype());
  meta.device = impl.device().type();
  meta.device_index = impl.device().index();
  meta.requires_grad = requiresGrad(impl);
  meta.is_leaf = value.is_leaf();
  meta.is_wrapped_number = impl.is_wrapped_number();
  meta.is_conj = impl.key_set().has(c10::DispatchKey::Conjugate);
  meta.is_neg = impl.key_set().has(c10::DispatchKey::Negative);
  meta.is_inference = ImplFields::isInference(impl);
  meta.is_parameter = PyType_IsSubtype(Py_TYPE(tensor), reinterpret_cast<PyTypeObject*>(ParameterClass));
  if (impl.has_storage() && impl.layout() == c10::kStrided) {
    meta.storage_offset = value.storage_offset();
    const c10::StorageImpl& storage = *impl.unsafe_storage().unsafeGetStorageImpl();
    meta.storage_bytes = storage.sym_nbytes().maybe_as_int().value_or(0);
  }
  return meta;
}

uintptr_t storageOf(PyObject* tensor) {
  const c10::TensorImpl& impl = implOf(tensor);
  return impl.has_storage() ? reinterpret_cast<uintptr_t>(impl.unsafe_storage().unsafeGetStorageImpl()) : 0;
}

}  // namespace stator::tensor
