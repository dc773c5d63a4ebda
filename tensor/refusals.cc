#include "tensor/refusals.h"

#include <fmt/format.h>

#include <memory>

#include <mobula/errors.h>

namespace mobula::internal::tensor {

void refuse(std::string_view field, std::string_view rule, std::string_view given) {
  auto record = std::make_shared<detail::ErrorRecord>();
  record->kind = detail::ErrorKind::invalid_request;
  record->field = field;
  record->rule = rule;
  record->message = fmt::format("{}: {}; given: {}", field, rule, given);
  throw InvalidRequestError(std::shared_ptr<const detail::ErrorRecord>(std::move(record)));
}

void fail(const Failure& why, std::string_view tried) {
  if (why.code == ErrorCode::resource_exhausted) throw OutOfMemoryError(why.text);
  if (why.code == ErrorCode::not_found || why.code == ErrorCode::invalid_argument) {
    refuse("device", why.text, std::string(tried));
  }
  throw ObjectLostError(std::string(tried) + ": " + why.text);
}

void refuse_shared(std::string_view tried, const Tensor& tensor,
                   const std::vector<std::string>& readers) {
  throw TensorSharedError(
      fmt::format("{} of a tensor ({}) that others may read: {}; clone() gives one "
                  "that may be written",
                  tried, text_of(tensor), fmt::join(readers, "; ")));
}

std::string text_of(NumberSpan numbers) { return fmt::format("[{}]", fmt::join(numbers, ", ")); }

std::string text_of(Device device) {
  if (device == Device()) return "cpu";
  return fmt::format("{}:{}", device.kind == Device::cpu ? "cpu" : "cuda", device.index);
}

std::string text_of(const Tensor& tensor) {
  return fmt::format("{} {} on {}", dtype_name(tensor.dtype()), text_of(tensor.shape()),
                     text_of(tensor.device()));
}

}  // namespace mobula::internal::tensor
