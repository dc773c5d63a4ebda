// Exceptions of tensors, in one place for uniform texts.
// Thread: any.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <mobula/tensor.h>

#include "base/result.h"
#include "tensor/layout.h"

namespace mobula::internal::tensor {

// Throws InvalidRequestError: "FIELD: RULE; given: GIVEN".
[[noreturn]] void refuse(std::string_view field, std::string_view rule, std::string_view given);

// Throws the exception for a failure of device memory: OutOfMemoryError, InvalidRequestError for an
// unknown device, otherwise ObjectLostError.
[[noreturn]] void fail(const Failure& why, std::string_view tried);

// Throws TensorSharedError. `tried` is the rejected call, such as "mutable_view"; `readers` must
// not be empty.
[[noreturn]] void refuse_shared(std::string_view tried, const Tensor& tensor,
                                const std::vector<std::string>& readers);

// Text such as "[2, 3]".
std::string text_of(NumberSpan numbers);
// Text such as "cpu" or "cuda:1".
std::string text_of(Device device);
// Text such as "float32 [2, 3] on cpu".
std::string text_of(const Tensor& tensor);

}  // namespace mobula::internal::tensor
