// What tensors throw, in one place so that all of it reads alike. Any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <mobula/tensor.h>

#include "base/result.h"
#include "tensor/layout.h"

namespace mobula::internal::tensor {

// InvalidRequestError: "FIELD: RULE; given: GIVEN".
[[noreturn]] void refuse(std::string_view field, std::string_view rule, std::string_view given);

// What a failure of device memory becomes: OutOfMemoryError, InvalidRequestError for a device that is not
// there, else ObjectLostError.
[[noreturn]] void fail(const Failure& why, std::string_view tried);

// TensorSharedError. `tried`: "mutable_view"; `readers` is not empty.
[[noreturn]] void refuse_shared(std::string_view tried, const Tensor& tensor,
                                const std::vector<std::string>& readers);

// "[2, 3]".
std::string text_of(NumberSpan numbers);
// "cpu", "cuda:1".
std::string text_of(Device device);
// "float32 [2, 3] on cpu".
std::string text_of(const Tensor& tensor);

}  // namespace mobula::internal::tensor
