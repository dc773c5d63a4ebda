#include "client/executor/json_call.h"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/containers/block_pool.h"
#include "base/text/edit_distance.h"
#include "base/text/json_writer.h"
#include "client/api/completion/callback_thread.h"
#include "client/api/untyped/call_signature.h"
#include "client/api/untyped/untyped_payload.h"
#include "client/console/json_msgpack.h"
#include "client/console/json_values.h"
#include "client/console/neutral_parts.h"
#include "client/console/stored_copy.h"
#include "client/console/type_text.h"
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
using runtime::console::NeutralParts;

detail::Outcome fail(detail::ErrorKind kind, std::string text) {
  return {.error = client::make_error(kind, std::move(text))};
}

// A result, an item, or an argument: JSON with its parts. A `typed` argument is the value of a
// ref, in bytes of C++.
struct Converted {
  Json json{};
  NeutralParts parts{};
  const detail::StoredValue* typed = nullptr;
};

// The type of the result, or of the items of a stream. The entry is convertible.
const TypeDescription& converted_type(const Entry& entry) {
  const auto& call = *entry.description();
  return entry.is_streaming() ? call.items() : call.result();
}

// The programs of a neutral call, for messages. Both programs of other calls are the same.
struct Programs {
  std::string_view caller = {};

  std::string way() const {
    if (caller.empty()) return {};
    return fmt::format(" from program {} to program {}", caller, client::program_name());
  }
};

// The function of a result, and the form that the caller expects.
struct ResultForm {
  const Entry& entry;
  JsonForm form;
  std::size_t count = 1;  // of results; other than 1: each is a part of the value
  Programs programs{};    // names the caller, which the call keeps

  // The result, or each item of a stream.
  const TypeDescription& type() const { return converted_type(entry); }
  detail::Done convert(const detail::Outgoing& value, Converted& converted) const {
    const bool neutral = form == JsonForm::neutral;
    if (neutral) value.set_apart(runtime::console::all_tensors);
    auto json = runtime::console::json_of(runtime::console::stored_copy(value), type(), form,
                                          neutral ? &converted.parts : nullptr);
    if (!json) return error(json.error().text);
    converted.json = std::move(*json);
    return std::nullopt;
  }
  detail::ErrorRecord error(const std::string& why) const {
    std::string text = fmt::format("{} of {}: {}", entry.is_streaming() ? "an item" : "the result",
                                   declaration_of(entry), why);
    if (!programs.caller.empty()) {
      text += fmt::format("; program {}, called by program {}", client::program_name(),
                          programs.caller);
    }
    return client::make_error(detail::ErrorKind::serialization, std::move(text));
  }
};

detail::Done give_neutral(auto& call, std::size_t index, const Json& json, NeutralParts parts) {
  const runtime::console::JsonMsgpack encoded(json);
  return call.accept(
      index, dynamic::Payload(dynamic::neutral_format, {.body = encoded.bytes(),
                                                        .refs = std::move(parts.refs),
                                                        .actors = std::move(parts.actors),
                                                        .tensors = std::move(parts.tensors)}));
}

// Stores the converted value of a function as its results.
detail::Done give(auto& call, Converted&& value, const ResultForm& form) {
  if (form.form == JsonForm::text)
    return call.accept(0, detail::OutgoingValue<std::string>(json_text(value.json)));
  if (form.count == 1) return give_neutral(call, 0, value.json, std::move(value.parts));
  for (std::size_t i = 0; i < form.count; ++i) {
    auto parts = runtime::console::take_parts(value.json[i], value.parts);
    if (auto failed = give_neutral(call, i, value.json[i], std::move(parts))) return failed;
  }
  return std::nullopt;
}

// Converts the result of a deferred call.
class DeferredConversion final : public detail::DeferredResults {
 public:
  DeferredConversion(std::shared_ptr<detail::DeferredResults> call, ResultForm result)
      : call_(std::move(call)), result_(std::move(result)) {}

  detail::Done accept(std::size_t, const detail::Outgoing& value) override {
    Converted converted;
    if (auto failed = result_.convert(value, converted)) return failed;
    return give(*call_, std::move(converted), result_);
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
    return result_.convert(value, value_);
  }
  std::shared_ptr<detail::DeferredResults> defer() override {
    auto call = call_.defer();
    if (!call) return nullptr;
    deferred_ = true;
    return std::make_shared<DeferredConversion>(std::move(call), result_);
  }
  bool deferred() const { return deferred_; }
  // Stores the value that the function has returned.
  detail::Done give() { return executor::give(call_, std::move(value_), result_); }

 private:
  const ResultForm result_;
  detail::ResultSink& call_;
  Converted value_;
  bool deferred_ = false;
};

// Converts the items of a stream.
class ConvertedItems final : public detail::ResultSink {
 public:
  ConvertedItems(const ResultForm& items, detail::ResultSink& call) : items_(items), call_(call) {}

  detail::Done accept(std::size_t index, const detail::Outgoing& value) override {
    Converted item;
    if (auto failed = items_.convert(value, item)) return failed;
    return give_neutral(call_, index, item.json, std::move(item.parts));
  }

 private:
  const ResultForm& items_;
  detail::ResultSink& call_;
};

bool is_named(const Entry& entry, const std::string& method) {
  const std::string name = common_name(entry.name());
  return name == method || name.ends_with("::" + method);
}

bool is_convertible(const Entry& entry) {
  const auto* const call = entry.description();
  return call != nullptr && (call->result != nullptr || call->items != nullptr);
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

// The argument as a value of the parameter's type, or the reason why it cannot be.
Result<detail::StoredValue> argument_of(const Converted& argument, const TypeDescription& parameter,
                                        JsonForm form) {
  if (argument.typed != nullptr) {
    if (detail::has_fingerprint(*argument.typed, parameter.fingerprint)) return *argument.typed;
    return failure(ErrorCode::invalid_argument,
                   "the value of its ref was written by C++ as another type");
  }
  return runtime::console::typed_copy(argument.json, parameter, form, argument.parts);
}

using ConvertedValues = PooledVector<Converted>;

// Reuses the memory of the previous list on this thread, which no caller keeps.
const std::vector<const TypeDescription*>& parameters_of(const Entry& entry) {
  thread_local std::vector<const TypeDescription*> parameters;
  parameters.clear();
  entry.description()->add_parameters(parameters);
  return parameters;
}

// The call with typed arguments and a converted result.
detail::Outcome run_converted(const ConvertedValues& arguments, const ResultForm& form,
                              const detail::Invocation& call) {
  const Entry& entry = form.entry;
  const ErrorKind mismatch =
      form.form == JsonForm::text ? ErrorKind::invalid_request : ErrorKind::serialization;
  const auto& parameters = parameters_of(entry);
  if (arguments.size() != parameters.size()) {
    return fail(mismatch,
                fmt::format("{} takes {} arguments, and {} are given{}", declaration_of(entry),
                            parameters.size(), arguments.size(), form.programs.way()));
  }
  PooledVector<detail::StoredValue> values;
  values.reserve(parameters.size());
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    auto value = argument_of(arguments[i], *parameters[i], form.form);
    if (!value) {
      return fail(mismatch, fmt::format("argument {} of {}{}: {}", i + 1, declaration_of(entry),
                                        form.programs.way(), value.error().text));
    }
    values.push_back(std::move(*value));
  }
  detail::Invocation typed = call;
  typed.arguments = values;
  if (entry.is_streaming()) {
    ConvertedItems items(form, *call.results);
    typed.results = &items;
    return entry.invoke(typed);
  }
  ConvertedResult result(form, *call.results);
  typed.results = &result;
  detail::Outcome outcome = entry.invoke(typed);
  if (outcome.error || outcome.exit_actor || result.deferred()) return outcome;
  if (auto failed = result.give()) outcome.error = std::move(failed);
  return outcome;
}

// The number of results of a call that may ask for each part of the value: of a tuple or an array.
std::size_t parts_of_result(const TypeDescription& type) {
  if (type.shape == detail::Shape::tuple) return runtime::console::parts_of(type).size();
  return type.shape == detail::Shape::array ? type.count : 1;
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
    // Before the call, which could not give its result.
    const Entry& callee = *found.front();
    const auto why = runtime::console::why_no_json(converted_type(callee), true);
    if (!why.empty()) {
      return {nullptr,
              client::make_error(ErrorKind::serialization,
                                 fmt::format("{} of {} of program {}: {}",
                                             callee.is_streaming() ? "an item" : "the result",
                                             declaration_of(callee), client::program_name(), why))};
    }
    registry.add_key(key, callee);
    return {&callee, {}};
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

// The arguments of a neutral call, or its error. Values of refs may be typed.
detail::Answer<ConvertedValues> neutral_arguments(const ResultForm& form,
                                                  std::span<const detail::StoredValue> given) {
  ConvertedValues arguments;
  arguments.reserve(given.size());
  try {
    for (const detail::StoredValue& each : given) {
      if (!detail::has_fingerprint(each, client::untyped_fingerprint)) {
        arguments.push_back({.typed = &each});
        continue;
      }
      arguments.emplace_back();
      // The caller owns the value, and the parts refer to its bytes until the call has run.
      auto [json, parts] = runtime::console::neutral_json(each);
      arguments.back() = {std::move(json), std::move(parts)};
    }
  } catch (const SerializationError& error) {
    return client::make_error(
        ErrorKind::serialization,
        fmt::format("argument {} of {}{}: {}", arguments.size(), declaration_of(form.entry),
                    form.programs.way(), error.what()));
  }
  return arguments;
}

// Why the callee cannot have these results; empty if it can.
std::string why_no_results(const Entry& callee, const CallForm& form) {
  const bool expects_stream = form.stream.window != 0;
  if (callee.is_streaming())
    return expects_stream ? "" : "results, and it gives a stream; set Returns::streaming";
  if (expects_stream) return "a stream, and it has one result; call it without Returns::streaming";
  const std::size_t parts = parts_of_result(callee.description()->result());
  if (form.num_returns <= 1 || form.num_returns == parts) return {};
  return fmt::format("{} results, and it has {}", form.num_returns,
                     parts == 1 ? "1" : fmt::format("1 or {}", parts));
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
  if (found.front()->is_streaming()) {
    return fail(ErrorKind::invalid_request,
                fmt::format("{} gives a stream, which has no JSON form; call it from a program",
                            declaration_of(*found.front())));
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
  ConvertedValues values;
  for (const Json& each : arguments) values.push_back({.json = each});
  return run_converted(values, {*found.front(), JsonForm::text}, call);
}

bool has_function(const CallForm& form) {
  return find_neutral(form.method, nullptr).entry != nullptr;
}

detail::Outcome run_neutral_call(const CallForm& form, const client::UntypedCaller& caller,
                                 const void* class_tag, const detail::Invocation& call) {
  const Callee callee = find_neutral(form.method, class_tag);
  detail::Outcome outcome;
  outcome.no_retry = true;
  if (callee.entry == nullptr) {
    outcome.error = callee.error;
    outcome.error->message += fmt::format("; the caller is program {}", caller.program);
    return outcome;
  }
  const ResultForm result{*callee.entry, JsonForm::neutral, form.num_returns, {caller.program}};
  if (auto why = why_no_results(*callee.entry, form); !why.empty()) {
    outcome.error =
        client::make_error(ErrorKind::invalid_request,
                           fmt::format("the call of {}{} expects {}", declaration_of(*callee.entry),
                                       result.programs.way(), why));
    return outcome;
  }
  auto arguments = neutral_arguments(result, call.arguments);
  if (arguments.ok()) return run_converted(arguments.value(), result, call);
  outcome.error = arguments.error();
  return outcome;
}

}  // namespace mobula::internal::executor
