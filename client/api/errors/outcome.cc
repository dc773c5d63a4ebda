// Converts between exceptions of user code and error records.
#include <cxxabi.h>

#include <cstdlib>
#include <exception>
#include <string>
#include <typeinfo>

#include <mobula/context.h>
#include <mobula/detail/deferred_results.h>
#include <mobula/detail/registry.h>
#include <mobula/errors.h>

#include "client/api/errors/exception_table.h"
#include "client/api/readable_type.h"

namespace mobula::detail {

std::string readable_type(const std::type_info& type) {
  int status = 0;
  char* text = abi::__cxa_demangle(type.name(), nullptr, nullptr, &status);
  std::string name = status == 0 ? text : type.name();
  std::free(text);
  return name;
}

namespace {

// Carries the failure of a sink through the frames of user code to guarded().
struct ResultRefused {
  ErrorRecord why;
};

// Longer chains of causes are cut.
constexpr int max_causes = 8;

ErrorRecord record_current(int causes_left);

void add_cause(ErrorRecord& record, std::exception_ptr cause, int causes_left) {
  if (!cause || causes_left == 0) return;
  try {
    std::rethrow_exception(cause);
  } catch (...) {
    record.nested.push_back(record_current(causes_left - 1));
  }
}

void describe_exception(ErrorRecord& record, const std::exception& thrown, int causes_left) {
  record.message = own_text(thrown);
  const ExceptionCodec* codec = internal::client::find_exception(thrown);
  // The wrapper that carries a nested exception is not a public type.
  record.remote_type = readable_type(codec != nullptr ? *codec->type : typeid(thrown));
  if (codec != nullptr) {
    try {
      record.exception_bytes = codec->encode(thrown);
      record.exception_type = internal::client::exception_key(*codec);
    } catch (...) {
      // An exception that cannot be encoded stays a TaskError with the same text.
      record.exception_bytes.clear();
    }
  }
  const auto* nested = dynamic_cast<const std::nested_exception*>(&thrown);
  if (nested != nullptr) add_cause(record, nested->nested_ptr(), causes_left);
}

ErrorRecord record_current(int causes_left) {
  ErrorRecord record;
  record.kind = ErrorKind::task;
  try {
    throw;
  } catch (const TaskError& failed) {
    return failed.record();
  } catch (const Error& failed) {
    record.message = failed.what();
    record.remote_type = readable_type(typeid(failed));
    if (causes_left > 0) record.nested.push_back(failed.record());
  } catch (const std::exception& thrown) {
    describe_exception(record, thrown, causes_left);
  } catch (...) {
    const std::type_info* type = abi::__cxa_current_exception_type();
    record.remote_type = type != nullptr ? readable_type(*type) : "unknown";
    record.message = "an exception that is not a std::exception";
  }
  return record;
}

}  // namespace

ErrorRecord record_current_exception() {
  try {
    throw;
  } catch (const TaskError& failed) {
    // User code passed on the failure of another task: the original failure stays visible.
    ErrorRecord record;
    record.kind = ErrorKind::task;
    record.remote_type = failed.remote_type();
    record.message = failed.message();
    record.nested.push_back(failed.record());
    return record;
  } catch (...) {
    return record_current(max_causes);
  }
}

namespace {

// Runs `body` and converts its exceptions.
template <class Body>
Outcome outcome_by(const Body& body) {
  try {
    body();
    return {};
  } catch (const ExitActor&) {
    return {.error = std::nullopt, .exit_actor = true};
  } catch (const ResultRefused& refused) {
    return {.error = refused.why};
  } catch (abi::__forced_unwind&) {
    throw;  // the thread is being cancelled, which must not be stopped
  } catch (...) {
    return {.error = record_current_exception(), .thrown = std::current_exception()};
  }
}

}  // namespace

Outcome guarded(const Invocation& call, void (*body)(const Invocation&)) {
  return outcome_by([&] { body(call); });
}

Outcome outcome_of_exception() {
  return outcome_by([] { throw; });
}

Outcome outcome_of(std::exception_ptr thrown) {
  return outcome_by([&] { std::rethrow_exception(std::move(thrown)); });
}

void give_deferred(DeferredResults& call, std::size_t index, const Outgoing& value) {
  const Done done = call.accept(index, value);
  value.rethrow_failure();
  if (done) throw ResultRefused{*done};
}

std::shared_ptr<DeferredResults> defer_call(const Invocation& call) {
  auto deferred = call.results == nullptr ? nullptr : call.results->defer();
  if (!deferred) {
    throw InvalidRequestError(
        "call: this caller does not support functions that return mobula::Deferred");
  }
  return deferred;
}

void give_result(const Invocation& call, std::size_t index, const Outgoing& value) {
  const Done done = call.results->accept(index, value);
  value.rethrow_failure();
  if (done) throw ResultRefused{*done};
}

}  // namespace mobula::detail
