// A host of functions that are known by name alone. It runs in the driver and in the executors of
// the tests of untyped calls.
// Thread: any; functions are registered before init.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <mobula/dynamic.h>

namespace mobula::dynamic {

inline constexpr const char* format = "test/1";

// A payload with text and refs. It keeps the text.
class Text {
 public:
  explicit Text(std::string text, std::vector<AnyRef> refs = {}, std::vector<AnyActor> actors = {},
                std::vector<Tensor> tensors = {})
      : text_(std::move(text)),
        value_(format, {.body = std::as_bytes(std::span(text_.data(), text_.size())),
                        .refs = std::move(refs),
                        .actors = std::move(actors),
                        .tensors = std::move(tensors)}) {}
  Text(const Text&) = delete;
  Text& operator=(const Text&) = delete;

  const Payload& value() const { return value_; }
  Argument argument() const { return {.value = &value_}; }

 private:
  const std::string text_;
  const Payload value_;
};

std::string text_of(const StoredPayload& value);
// Waits at most 30 s. Throws the error of the ref.
std::string text_of(const AnyRef& ref);
detail::ErrorRecord error_of(const AnyRef& ref);
Failure failure(std::string message, bool may_retry = true);

using Function = std::function<void(Call)>;
// Adds a function of the host.
void add_function(const std::string& name, Function function);

// Counts of hooks in this process and its fork server.
struct HookCounts {
  int before_fork = 0;
  int in_parent = 0;
  int in_child = 0;
  int assigned = 0;
  std::string slot_at_assignment;
};
HookCounts& hook_counts();

// The host with all functions.
Host cpp_host();

}  // namespace mobula::dynamic
