// DLPack tensors as other libraries produce them, with a deleter that counts.
// Thread: owner.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "tensor/dlpack_abi.h"

namespace mobula::testing {

namespace dlpack = internal::dlpack;

// Memory that a producer hands out once. Must outlive the tensor.
template <class Form, class Given>
class Producer {
 public:
  Producer(void* data, std::vector<std::int64_t> shape, std::vector<std::int64_t> strides = {})
      : shape_(std::move(shape)), strides_(std::move(strides)) {
    form.context = this;
    form.deleter = [](Given* self) {
      auto* producer = static_cast<Producer*>(reinterpret_cast<Form*>(self)->context);
      ++producer->deleted;
      if (producer->on_delete) producer->on_delete();
    };
    auto& view = form.tensor;
    view.data = data;
    view.device = {dlpack::device_cpu, 0};
    view.dimensions = static_cast<std::int32_t>(shape_.size());
    view.type = {dlpack::code_float, 32, 1};
    view.shape = shape_.data();
    view.strides = strides_.empty() ? nullptr : strides_.data();
    if constexpr (requires { form.version; }) form.version = {1, 0};
  }
  Producer(const Producer&) = delete;

  Given* give() { return reinterpret_cast<Given*>(&form); }

  Form form{};
  int deleted = 0;
  std::function<void()> on_delete;

 private:
  std::vector<std::int64_t> shape_;
  std::vector<std::int64_t> strides_;
};

using Unversioned = Producer<dlpack::Managed, DLManagedTensor>;
using Versioned = Producer<dlpack::ManagedVersioned, DLManagedTensorVersioned>;

inline const dlpack::ManagedVersioned& as_managed(const DLManagedTensorVersioned* managed) {
  return *reinterpret_cast<const dlpack::ManagedVersioned*>(managed);
}
inline const dlpack::Managed& as_managed(const DLManagedTensor* managed) {
  return *reinterpret_cast<const dlpack::Managed*>(managed);
}

// Ends the use by an importer.
template <class Given>
void let_go(Given* managed) {
  as_managed(managed).deleter(managed);
}

// The same tensor, returned by a library that took ownership, with another deleter.
template <class Form, class Given>
Given* passed_on(Given* managed) {
  struct Other {
    Form form;
    Given* of;
  };
  auto* other = new Other{as_managed(managed), managed};
  other->form.context = other;
  other->form.deleter = [](Given* self) {
    auto* ended = static_cast<Other*>(reinterpret_cast<Form*>(self)->context);
    let_go(ended->of);
    delete ended;
  };
  return reinterpret_cast<Given*>(&other->form);
}
inline DLManagedTensor* passed_on(DLManagedTensor* managed) {
  return passed_on<dlpack::Managed>(managed);
}
inline DLManagedTensorVersioned* passed_on(DLManagedTensorVersioned* managed) {
  return passed_on<dlpack::ManagedVersioned>(managed);
}

}  // namespace mobula::testing
