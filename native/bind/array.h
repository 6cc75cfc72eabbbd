// What bindings are given by Python: arrays, and addresses of torch's tensors as integers. Either must lie where the
// compiler may assume that such numbers lie. trellis.aligned copies what does not; what slips through is refused here,
// since kernels would read it with undefined behaviour.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace trellis {

// A contiguous array on the CPU; further demands as those of nanobind's arrays.
template <typename T, typename... More>
struct Array : nanobind::ndarray<T, More..., nanobind::c_contig, nanobind::device::cpu> {
  using Base = nanobind::ndarray<T, More..., nanobind::c_contig, nanobind::device::cpu>;
  Array() = default;
  explicit Array(Base base) : Base(std::move(base)) {}
};

inline bool is_aligned(size_t address, size_t size) { return address % size == 0; }

// 0 is null.
template <typename T>
T* at(size_t address) {
  if (!is_aligned(address, alignof(T))) throw nanobind::value_error("a tensor is not aligned to the size of its numbers");
  return reinterpret_cast<T*>(address);
}

}  // namespace trellis

namespace nanobind::detail {

template <typename T, typename... More>
struct type_caster<trellis::Array<T, More...>> {
  using Own = trellis::Array<T, More...>;
  using Base = make_caster<typename Own::Base>;
  NB_TYPE_CASTER(Own, Base::Name)

  template <typename Flags>
  bool from_python(handle src, Flags flags, cleanup_list* cleanup) noexcept {
    Base base;
    if (!base.from_python(src, flags, cleanup)) return false;
    value = Own(base.operator cast_t<typename Own::Base&&>());
    return trellis::is_aligned(reinterpret_cast<size_t>(value.data()), alignof(T));
  }

  static handle from_cpp(const Own& array, rv_policy policy, cleanup_list* cleanup) noexcept {
    return Base::from_cpp(array, policy, cleanup);
  }
};

}  // namespace nanobind::detail

namespace trellis {

// Where an array's numbers are. It must be what is wanted as it comes: a converted copy would be gone before it is
// used.
template <typename T>
T* data_of(nanobind::handle array) {
  Array<T> found;
  if (!nanobind::try_cast(array, found, false))
    throw nanobind::type_error("an array is not of the type and order that it must have, or is not aligned");
  return found.data();
}

// A NumPy array that owns these numbers.
template <typename T>
nanobind::ndarray<nanobind::numpy, T> to_numpy(std::vector<T> values) {
  auto* data = new std::vector<T>(std::move(values));
  nanobind::capsule owner(data, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
  return nanobind::ndarray<nanobind::numpy, T>(data->data(), {data->size()}, owner);
}

template <typename T>
nanobind::ndarray<nanobind::numpy, T> copy_of(const T* from, size_t count) {
  return to_numpy(std::vector<T>(from, from + count));
}

}  // namespace trellis
