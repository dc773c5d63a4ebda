#include "client/executor/json_call.h"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/edit_distance.h"
#include "base/json_writer.h"
#include "client/api/call_signature.h"
#include "client/api/callback_thread.h"
#include "client/console/json_msgpack.h"
#include "client/console/json_values.h"
#include "client/engine/conversion.h"
#include "client/executor/callee.h"
#include "mobula/detail/deferred_results.h"
#include "mobula/errors.h"
#include "mobula/neutral.h"

namespace mobula::internal::executor {
namespace {

using detail::Entry;
using detail::ErrorKind;
using detail::TypeDescription;
using runtime::console::Json;
using runtime::console::JsonForm;

detail::Outcome fail(detail::ErrorKind kind, std::string text) {
  return {.error = client::make_error(kind, std::move(text))};
}

// A value that owns its bytes, which are aligned to 64 bytes. Aligned allocations would fragment the
// heap.
detail::StoredValue stored(const detail::Outgoing& value) {
  constexpr std::size_t alignment = 64;
  std::size_t space = value.size_bytes() + alignment;
  const std::shared_ptr<std::byte[]> memory(new std::byte[space]);
  void* begin = memory.get();
  const std::span<std::byte> bytes(
      static_cast<std::byte*>(std::align(alignment, value.size_bytes(), begin, space)),
      value.size_bytes());
  detail::StoredValue copy;
  if (!value.write(bytes)) return copy;
  copy.bytes = bytes;
  copy.owner = memory;
  return copy;
}

// Stores the converted value of a result.
template <class Sink>
detail::Done give(Sink& call, const Json& json, JsonForm form) {
  if (form == JsonForm::text)
    return call.accept(0, detail::OutgoingValue<std::string>(json_text(json)));
  const std::vector<std::uint8_t> bytes = Json::to_msgpack(json);
  return call.accept(
      0, dynamic::Payload(dynamic::neutral_format, {.body = std::as_bytes(std::span(bytes))}));
}

// The function of a result, and the form that the caller expects.
struct ResultForm {
  const Entry& entry;
  JsonForm form;

  detail::Answer<Json> convert(const detail::Outgoing& value) const {
    auto json = runtime::console::json_of(stored(value), entry.description()->result(), form);
    if (json) return std::move(*json);
    return client::make_error(
        detail::ErrorKind::serialization,
        fmt::format("the result of {}: {}", declaration_of(entry), json.error().text));
  }
};

// The programs of a neutral call, for messages. Both programs of other calls are the same.
struct Programs {
  std::string_view caller = {};

  std::string way() const {
    if (caller.empty()) return {};
    return fmt::format(" from program {} to program {}", caller, client::program_name());
  }
};

// Converts the result of a deferred call.
class DeferredConversion final : public detail::DeferredResults {
 public:
  DeferredConversion(std::shared_ptr<detail::DeferredResults> call, ResultForm result)
      : call_(std::move(call)), result_(std::move(result)) {}

  detail::Done accept(std::size_t, const detail::Outgoing& value) override {
    const auto json = result_.convert(value);
    return json.ok() ? give(*call_, json.value(), result_.form) : detail::Done(json.error());
  }
  // The converted value may be larger.
  bool must_post(const detail::Outgoing&) const override { return detail::in_callback(); }
  bool complete(detail::Outcome outcome) override { return call_->complete(std::move(outcome)); }
  bool cancelled() const override { return call_->cancelled(); }
  void on_cancel(std::weak_ptr<detail::Job> job) override { call_->on_cancel(std::move(job)); }
  void post(std::shared_ptr<detail::Job> job) override { call_->post(std::move(job)); }
  void post_at(std::chrono::steady_clock::time_point at,
               std::shared_ptr<detail::Job> job) override {
    call_->post_at(at, std::move(job));
  }
  void set_waiting(bool on) override { call_->set_waiting(on); }
  std::shared_ptr<const detail::ContextRecord> context() const override { return call_->context(); }

 private:
  const std::shared_ptr<detail::DeferredResults> call_;  // shared with jobs of the call
  const ResultForm result_;
};

// Converts the result of the function.
class ConvertedResult final : public detail::ResultSink {
 public:
  ConvertedResult(ResultForm result, detail::ResultSink& call)
      : result_(std::move(result)), call_(call) {}

  detail::Done accept(std::size_t, const detail::Outgoing& value) override {
    auto json = result_.convert(value);
    if (!json.ok()) return json.error();
    json_ = std::move(json).take();
    return std::nullopt;
  }
  std::shared_ptr<detail::DeferredResults> defer() override {
    auto call = call_.defer();
    if (!call) return nullptr;
    deferred_ = true;
    return std::make_shared<DeferredConversion>(std::move(call), result_);
  }
  bool deferred() const { return deferred_; }
  const Json& json() const { return json_; }

 private:
  const ResultForm result_;
  detail::ResultSink& call_;
  Json json_;
  bool deferred_ = false;
};

bool is_named(const Entry& entry, const std::string& method) {
  const std::string name = common_name(entry.name());
  return name == method || name.ends_with("::" + method);
}

bool is_convertible(const Entry& entry) {
  return entry.description() != nullptr && entry.description()->result != nullptr;
}

using Entries = std::vector<const Entry*>;

Entries named(const Entries& entries, const std::string& name) {
  Entries found;
  for (const Entry* each : entries) {
    if (!is_convertible(*each) || !is_named(*each, name)) continue;
    if (common_name(each->name()) == name) return {each};
    found.push_back(each);
  }
  return found;
}

// Functions that other programs can call. Functions of the library are internal.
Entries functions() {
  Entries all;
  for (const Entry* each : detail::Registry::instance().entries()) {
    if (each->kind() == detail::EntryKind::task && is_convertible(*each) &&
        !each->name().starts_with("mobula::"))
      all.push_back(each);
  }
  return all;
}

std::string nearest_hint(const Entries& entries, const std::string& name) {
  std::string best;
  for (const Entry* each : entries) {
    const std::string known = common_name(each->name());
    if (best.empty() || edit_distance(name, known) < edit_distance(name, best)) best = known;
  }
  return best.empty() ? std::string() : fmt::format("; did you mean {}?", best);
}

// The call with typed arguments and a converted result.
detail::Outcome run_converted(const Entry& entry, const std::vector<Json>& arguments, JsonForm form,
                              const detail::Invocation& call, Programs programs) {
  const ErrorKind mismatch =
      form == JsonForm::text ? ErrorKind::invalid_request : ErrorKind::serialization;
  std::vector<const TypeDescription*> parameters;
  entry.description()->add_parameters(parameters);
  if (arguments.size() != parameters.size()) {
    return fail(mismatch,
                fmt::format("{} takes {} arguments, and {} are given{}", declaration_of(entry),
                            parameters.size(), arguments.size(), programs.way()));
  }
  std::vector<detail::StoredValue> values;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto value = runtime::console::value_of(arguments[i], *parameters[i], form);
    if (!value) {
      return fail(mismatch, fmt::format("argument {} of {}{}: {}", i + 1, declaration_of(entry),
                                        programs.way(), value.error().text));
    }
    values.push_back(stored(**value));
  }
  ConvertedResult result({entry, form}, *call.results);
  detail::Invocation typed = call;
  typed.arguments = values;
  typed.results = &result;
  detail::Outcome outcome = entry.invoke(typed);
  if (outcome.error || outcome.exit_actor || result.deferred()) return outcome;
  if (auto failed = give(*call.results, result.json(), form)) outcome.error = std::move(failed);
  return outcome;
}

// The key under which the registry finds the callee of a neutral call again.
detail::FunctionKey neutral_key(const std::string& name, const void* class_tag) {
  return {{detail::mix(detail::mix_start, name), reinterpret_cast<std::uintptr_t>(class_tag)},
          detail::mix(detail::mix_start, "neutral")};
}

Entries candidates(const void* class_tag) {
  return class_tag == nullptr ? functions() : methods_of(class_tag);
}

// The function that the name means, or an error.
Callee find_neutral(const std::string& name, const void* class_tag) {
  auto& registry = detail::Registry::instance();
  const detail::FunctionKey key = neutral_key(name, class_tag);
  if (const Entry* known = registry.find(key)) return {known, {}};
  const Entries all = candidates(class_tag);
  const Entries found = named(all, name);
  if (found.size() == 1) {
    registry.add_key(key, *found.front());
    return {found.front(), {}};
  }
  const auto kind = found.empty() ? ErrorKind::not_found : ErrorKind::invalid_request;
  const std::string text =
      found.empty() ? fmt::format("program {} has no {} {}{}; it has: {}", client::program_name(),
                                  class_tag == nullptr ? "function" : "method", name,
                                  nearest_hint(all, name), declarations_of(all))
                    : fmt::format("several functions of program {} match {}: {}",
                                  client::program_name(), name, declarations_of(found));
  return {nullptr, client::make_error(kind, text)};
}

// The arguments of a neutral call, or its error.
detail::Answer<std::vector<Json>> neutral_arguments(const std::string& function,
                                                    std::span<const detail::StoredValue> given) {
  std::vector<Json> arguments;
  try {
    for (const detail::StoredValue& each : given) {
      const dynamic::StoredPayload payload(std::make_shared<const detail::StoredValue>(each));
      const auto parts = payload.parts(dynamic::neutral_format);
      auto json = runtime::console::json_of_msgpack(parts.body);
      if (!json) throw SerializationError(json.error().text);
      arguments.push_back(std::move(*json));
    }
  } catch (const SerializationError& error) {
    return client::make_error(
        ErrorKind::serialization,
        fmt::format("argument {} of {} of program {}: {}", arguments.size() + 1, function,
                    client::program_name(), error.what()));
  }
  return arguments;
}

}  // namespace

detail::Outcome run_json_call(const CallForm& form, const void* class_tag,
                              const detail::Invocation& call) {
  const auto methods = methods_of(class_tag);
  const Entries found = named(methods, form.method);
  if (found.empty()) {
    return fail(ErrorKind::not_found, fmt::format("the actor has no method {}; it has: {}",
                                                  form.method, declarations_of(methods)));
  }
  if (found.size() > 1) {
    return fail(ErrorKind::invalid_request,
                fmt::format("several methods match {}: {}", form.method, declarations_of(found)));
  }
  std::string text;
  try {
    if (call.arguments.size() == 1) text = detail::decode<std::string>(call.arguments.front());
  } catch (const SerializationError& error) {
    return fail(ErrorKind::serialization, error.what());
  }
  const Json arguments = Json::parse(text, nullptr, false);
  if (!arguments.is_array()) {
    return fail(ErrorKind::invalid_request, fmt::format("{} takes a JSON array of its arguments",
                                                        declaration_of(*found.front())));
  }
  const std::vector<Json> values(arguments.begin(), arguments.end());
  return run_converted(*found.front(), values, JsonForm::text, call, {});
}

bool has_function(const CallForm& form) {
  return find_neutral(form.method, nullptr).entry != nullptr;
}

detail::Outcome run_neutral_call(const CallForm& form, const client::UntypedCaller& caller,
                                 const void* class_tag, const detail::Invocation& call) {
  const Callee callee = find_neutral(form.method, class_tag);
  detail::Outcome outcome;
  if (callee.entry == nullptr) {
    outcome.error = callee.error;
    outcome.error->message += fmt::format("; the caller is program {}", caller.program);
  } else if (form.num_returns != 1 || form.stream.window != 0) {
    outcome =
        fail(ErrorKind::invalid_request,
             fmt::format("{} has one result, and program {} expects {}",
                         declaration_of(*callee.entry), caller.program,
                         form.stream.window != 0 ? "a stream" : std::to_string(form.num_returns)));
  } else {
    auto arguments = neutral_arguments(form.method, call.arguments);
    if (arguments.ok()) {
      return run_converted(*callee.entry, arguments.value(), JsonForm::neutral, call,
                           {caller.program});
    }
    outcome.error = arguments.error();
  }
  outcome.no_retry = true;
  return outcome;
}

}  // namespace mobula::internal::executor
