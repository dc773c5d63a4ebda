// Knows whether the calling thread runs a completion callback. Calls that would block fail there:
// the event loop, which runs the callback, could not deliver the event that they wait for.
// Thread: any.
#pragma once

#include <string>
#include <string_view>

namespace mobula::detail {

bool in_callback();
// Message of the refusal.
std::string callback_refusal(std::string_view operation);
// Throws InvalidRequestError in a callback.
void refuse_callback(std::string_view operation);

// Marks the calling thread until destroyed.
class CallbackThread {
 public:
  CallbackThread();
  ~CallbackThread();
  CallbackThread(const CallbackThread&) = delete;
  CallbackThread& operator=(const CallbackThread&) = delete;

 private:
  bool outer_;
};

}  // namespace mobula::detail
