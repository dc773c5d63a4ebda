#include "client/api/completion/callback_thread.h"

#include <utility>

#include <mobula/errors.h>

namespace mobula::detail {
namespace {

thread_local bool runs_callback = false;

}  // namespace

bool in_callback() { return runs_callback; }

std::string callback_refusal(std::string_view operation) {
  return std::string(operation) +
         ": a completion callback must not block; use another thread, or take completions from a "
         "CompletionQueue";
}

void refuse_callback(std::string_view operation) {
  if (in_callback()) throw InvalidRequestError(callback_refusal(operation));
}

CallbackThread::CallbackThread() : outer_(std::exchange(runs_callback, true)) {}

CallbackThread::~CallbackThread() { runs_callback = outer_; }

}  // namespace mobula::detail
