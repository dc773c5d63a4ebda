#include "client/executor/json_call.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "base/json_writer.h"
#include "client/api/call_signature.h"
#include "client/api/callback_thread.h"
#include "client/console/json_values.h"
#include "client/engine/conversion.h"
#include "client/executor/callee.h"
#include "mobula/detail/deferred_results.h"
#include "mobula/errors.h"

namespace mobula::internal::executor {
namespace {

using detail::Entry;
using detail::TypeDescription;
using runtime::console::Json;

detail::Outcome fail(detail::ErrorKind kind, std::string text) {
  return {.error = client::make_error(kind, std::move(text))};
}

// A value that owns its bytes.
detail::StoredValue stored(const detail::Outgoing& value) {
  // The bytes must be aligned to 64 bytes.
  struct alignas(64) Unit {
    std::byte bytes[64];
  };
  const auto units = std::make_shared<std::vector<Unit>>(value.size_bytes() / sizeof(Unit) + 1);
  const std::span<std::byte> bytes(units->front().bytes, value.size_bytes());
  detail::StoredValue copy;
  if (!value.write(bytes)) return copy;
  copy.bytes = bytes;
  copy.owner = units;
  return copy;
}

detail::Answer<std::string> json_result(const detail::Outgoing& value,
                                        const TypeDescription& type) {
  const auto json = runtime::console::json_of(stored(value), type);
  if (!json) return client::make_error(detail::ErrorKind::serialization, json.error().text);
  return json_text(*json);
}

// Converts the result of a deferred call to JSON.
class DeferredJson final : public detail::DeferredResults {
 public:
  DeferredJson(std::shared_ptr<detail::DeferredResults> call, const TypeDescription& type)
      : call_(std::move(call)), type_(type) {}

  detail::Done accept(std::size_t index, const detail::Outgoing& value) override {
    auto text = json_result(value, type_);
    if (!text.ok()) return text.error();
    return call_->accept(index, detail::OutgoingValue<std::string>(text.value()));
  }
  // The text may be larger than the value.
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
  const TypeDescription& type_;
};

// Converts the result of the method to JSON.
class JsonResult final : public detail::ResultSink {
 public:
  JsonResult(const TypeDescription& type, detail::ResultSink& call) : type_(type), call_(call) {}

  detail::Done accept(std::size_t, const detail::Outgoing& value) override {
    auto text = json_result(value, type_);
    if (!text.ok()) return text.error();
    text_ = std::move(text).take();
    return std::nullopt;
  }
  std::shared_ptr<detail::DeferredResults> defer() override {
    auto call = call_.defer();
    if (!call) return nullptr;
    deferred_ = true;
    return std::make_shared<DeferredJson>(std::move(call), type_);
  }
  bool deferred() const { return deferred_; }
  const std::string& text() const { return text_; }

 private:
  const TypeDescription& type_;
  detail::ResultSink& call_;
  std::string text_ = "null";
  bool deferred_ = false;
};

bool is_named(const Entry& entry, const std::string& method) {
  const std::string name = common_name(entry.name());
  return name == method || name.ends_with("::" + method);
}

}  // namespace

detail::Outcome run_json_call(const CallForm& form, const void* class_tag,
                              const detail::Invocation& call) {
  using detail::ErrorKind;
  std::vector<const Entry*> found;
  const auto methods = methods_of(class_tag);
  for (const Entry* each : methods) {
    const bool callable = each->description() != nullptr && each->description()->result != nullptr;
    if (callable && is_named(*each, form.method)) found.push_back(each);
  }
  if (found.empty()) {
    return fail(ErrorKind::not_found, fmt::format("the actor has no method {}; it has: {}",
                                                  form.method, declarations_of(methods)));
  }
  if (found.size() > 1) {
    return fail(ErrorKind::invalid_request,
                fmt::format("several methods match {}: {}", form.method, declarations_of(found)));
  }
  const Entry& entry = *found.front();
  std::vector<const TypeDescription*> parameters;
  entry.description()->add_parameters(parameters);
  std::string text;
  try {
    if (call.arguments.size() == 1) text = detail::decode<std::string>(call.arguments.front());
  } catch (const SerializationError& error) {
    return fail(ErrorKind::serialization, error.what());
  }
  const Json arguments = Json::parse(text, nullptr, false);
  if (!arguments.is_array() || arguments.size() != parameters.size()) {
    return fail(ErrorKind::invalid_request,
                fmt::format("{} takes {} arguments", declaration_of(entry), parameters.size()));
  }
  std::vector<detail::StoredValue> values;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const auto value = runtime::console::value_of(arguments[i], *parameters[i]);
    if (!value) {
      return fail(
          ErrorKind::invalid_request,
          fmt::format("argument {} of {}: {}", i + 1, declaration_of(entry), value.error().text));
    }
    values.push_back(stored(**value));
  }
  JsonResult result(entry.description()->result(), *call.results);
  detail::Invocation typed = call;
  typed.arguments = values;
  typed.results = &result;
  detail::Outcome outcome = entry.invoke(typed);
  if (outcome.error || outcome.exit_actor || result.deferred()) return outcome;
  if (auto failed = call.results->accept(0, detail::OutgoingValue<std::string>(result.text())))
    outcome.error = std::move(failed);
  return outcome;
}

}  // namespace mobula::internal::executor
