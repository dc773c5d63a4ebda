// A Runtime without processes: runs calls at once in the calling thread, on the templates' bytes.
// Thread: owner.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <mobula/detail/registry.h>
#include <mobula/detail/runtime.h>

#include "client/without_groups.h"

namespace mobula::testing {

using detail::Answer;
using detail::Argument;
using detail::ContainedRef;
using detail::Done;
using detail::ErrorKind;
using detail::ErrorRecord;
using detail::RawId;
using detail::RefKind;
using detail::StoredValue;

inline ErrorRecord error_of(ErrorKind kind, std::string message) {
  ErrorRecord record;
  record.kind = kind;
  record.message = std::move(message);
  return record;
}

class FakeRuntime final : public WithoutGroups {
 public:
  Done submit_task(const detail::TaskSubmission& submission) override {
    last_task = submission.request;
    last_name = submission.function_name;
    if (refusal) return *refusal;
    const auto* entry = detail::Registry::instance().find(submission.function);
    if (entry == nullptr) return error_of(ErrorKind::not_found, "no such function");
    return run(*entry, nullptr, submission.arguments, submission.results);
  }

  Answer<RawId> create_actor(const detail::ActorCreation& creation) override {
    last_actor = creation.request;
    if (refusal) return *refusal;
    const auto& name = creation.request->name;
    if (creation.request->get_if_exists && names.contains(name)) {
      retain({RefKind::actor, names[name]});
      return names[name];
    }
    const auto* entry = detail::Registry::instance().find(creation.constructor);
    auto arguments = read(creation.arguments);
    if (!arguments.ok()) return arguments.error();
    Living living{.entry = entry, .class_name = std::string(creation.class_name)};
    living.death = entry->invoke({.arguments = arguments.value(), .created = &living.object}).error;
    const RawId id = next_id();
    living.count = 1;
    actors[id] = std::move(living);
    if (!name.empty()) names[name] = id;
    return id;
  }

  Done call_actor(const detail::ActorCall& call) override {
    last_call = call.request;
    last_name = call.method_name;
    const auto* entry = detail::Registry::instance().find(call.method);
    const auto at = actors.find(call.actor);
    if (at == actors.end()) return error_of(ErrorKind::actor_died, "the actor is gone");
    if (at->second.death) {
      call.results.front() = keep_error(*at->second.death);
      return {};
    }
    if (entry->class_tag() != at->second.entry->class_tag()) {
      return error_of(ErrorKind::invalid_request, "a method of another class");
    }
    return run(*entry, at->second.object.get(), call.arguments, call.results);
  }

  Answer<RawId> put(const detail::Outgoing& value, const detail::PutRequest&) override {
    if (refusal) return *refusal;
    auto stored = keep(value);
    if (!stored) return error_of(ErrorKind::serialization, "the value could not be written");
    return *stored;
  }

  Done get(std::span<const RawId> ids, const detail::GetRequest& request,
           std::span<StoredValue> values) override {
    last_get = request;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      const RawId id = ids[i];
      if (pending.contains(id)) return error_of(ErrorKind::get_timeout, "still pending");
      const auto at = objects.find(id);
      if (at == objects.end()) return error_of(ErrorKind::object_lost, "no such object");
      values[i] = at->second.value;
    }
    return {};
  }

  Answer<std::vector<bool>> wait(std::span<const RawId> ids, std::size_t, const detail::Deadline&,
                                 bool) override {
    std::vector<bool> ready;
    for (const RawId id : ids) ready.push_back(!pending.contains(id));
    return ready;
  }

  Done cancel(RawId id, bool force, bool recursive) override {
    cancelled_ids.insert(id);
    last_cancel = {force, recursive};
    return {};
  }

  Done kill(RawId actor, bool) override {
    actors.at(actor).death = error_of(ErrorKind::actor_died, "killed");
    return {};
  }

  void retain(ContainedRef ref) noexcept override {
    if (ref.kind == RefKind::object)
      ++objects.at(ref.id).count;
    else
      ++actors.at(ref.id).count;
  }

  void release(ContainedRef ref) noexcept override {
    if (ref.kind == RefKind::actor) {
      if (--actors.at(ref.id).count == 0) actors.erase(ref.id);
      return;
    }
    if (--objects.at(ref.id).count != 0) return;
    const auto dropped = objects.extract(ref.id);
    for (const ContainedRef& inner : dropped.mapped().value.contained) release(inner);
  }

  std::shared_ptr<const detail::ContextRecord> context() override { return context_record; }
  bool cancelled() override { return is_cancelled; }
  void* stream() override { return nullptr; }
  Done exit_actor() override {
    if (!in_actor) return error_of(ErrorKind::invalid_request, "not in an actor");
    return {};
  }

  Answer<std::vector<Node>> nodes() override { return std::vector<Node>{{.node_id = "n"}}; }
  Answer<std::map<std::string, double>> cluster_resources() override {
    return std::map<std::string, double>{{"CPU", 2}};
  }
  Answer<std::map<std::string, double>> available_resources() override {
    return std::map<std::string, double>{{"CPU", 1}};
  }
  Answer<detail::NamedActor> get_actor(std::string_view name, std::string_view) override {
    const auto at = names.find(std::string(name));
    if (at == names.end()) return error_of(ErrorKind::not_found, "no actor of this name");
    retain({RefKind::actor, at->second});
    return detail::NamedActor{at->second, actors.at(at->second).class_name};
  }
  Answer<std::vector<std::string>> list_named_actors() override {
    std::vector<std::string> all;
    for (const auto& [name, id] : names) all.push_back(name);
    return all;
  }

  // An object that never becomes ready.
  RawId make_pending() {
    const RawId id = next_id();
    objects[id].count = 1;
    pending.insert(id);
    return id;
  }

  RawId keep_error(ErrorRecord record) {
    const RawId id = next_id();
    objects[id].value.error = std::make_shared<const ErrorRecord>(std::move(record));
    objects[id].count = 1;
    return id;
  }

  struct Object {
    StoredValue value = {};
    int count = 0;
  };
  struct Living {
    const detail::Entry* entry = nullptr;
    std::string class_name = {};
    std::shared_ptr<void> object = {};
    std::optional<ErrorRecord> death = {};
    int count = 0;
  };

  std::map<RawId, Object> objects;
  std::map<RawId, Living> actors;
  std::map<std::string, RawId> names;
  std::set<RawId> pending;
  std::set<RawId> cancelled_ids;
  std::pair<bool, bool> last_cancel;
  std::optional<ErrorRecord> refusal;
  std::shared_ptr<const detail::TaskRequest> last_task;
  std::shared_ptr<const detail::ActorRequest> last_actor;
  std::shared_ptr<const detail::CallRequest> last_call;
  detail::GetRequest last_get;
  std::string last_name;
  std::shared_ptr<const detail::ContextRecord> context_record =
      std::make_shared<const detail::ContextRecord>();
  bool is_cancelled = false;
  bool in_actor = false;
  bool refuse_results = false;

 private:
  struct alignas(64) Line {
    std::byte of[64];
  };

  class Sink final : public detail::ResultSink {
   public:
    explicit Sink(FakeRuntime& runtime) : runtime_(runtime) {}
    Done accept(std::size_t, const detail::Outgoing& value) override {
      if (runtime_.refuse_results) return error_of(ErrorKind::object_store_full, "full");
      const auto id = runtime_.keep(value);
      if (!id) return error_of(ErrorKind::serialization, "not written");
      ids.push_back(*id);
      return {};
    }
    std::vector<RawId> ids;

   private:
    FakeRuntime& runtime_;
  };

  RawId next_id() { return {0xfa4e, ++last_id_}; }

  static std::optional<StoredValue> stored(const detail::Outgoing& value) {
    auto memory = std::make_shared<std::vector<Line>>(value.size_bytes() / sizeof(Line) + 1);
    auto* first = reinterpret_cast<std::byte*>(memory->data());
    if (!value.write({first, value.size_bytes()})) return std::nullopt;
    return StoredValue{
        .bytes = {first, value.size_bytes()}, .owner = memory, .contained = value.contained()};
  }

  std::optional<RawId> keep(const detail::Outgoing& value) {
    auto written = stored(value);
    if (!written) return std::nullopt;
    for (const ContainedRef& ref : written->contained) retain(ref);
    const RawId id = next_id();
    objects[id] = {.value = std::move(*written), .count = 1};
    return id;
  }

  Answer<std::vector<StoredValue>> read(std::span<const Argument> arguments) {
    std::vector<StoredValue> values;
    for (const Argument& argument : arguments) {
      if (argument.value == nullptr) {
        values.push_back(objects.at(argument.object).value);
      } else if (auto written = stored(*argument.value)) {
        values.push_back(std::move(*written));
      } else {
        return error_of(ErrorKind::serialization, "an argument could not be written");
      }
    }
    return values;
  }

  Done run(const detail::Entry& entry, void* self, std::span<const Argument> arguments,
           std::span<RawId> results) {
    auto values = read(arguments);
    if (!values.ok()) return values.error();
    Sink sink(*this);
    auto outcome = entry.invoke({.self = self, .arguments = values.value(), .results = &sink});
    if (outcome.exit_actor) outcome.error = error_of(ErrorKind::actor_died, "it exited");
    if (!outcome.error) {
      std::ranges::copy(sink.ids, results.begin());
      return {};
    }
    for (const RawId id : sink.ids) release({RefKind::object, id});
    outcome.error->task = entry.name();
    for (RawId& failed : results) failed = keep_error(*outcome.error);
    return {};
  }

  std::uint64_t last_id_ = 0;
};

// Installs a runtime for the duration of a test.
class Installed {
 public:
  Installed() { detail::install_runtime(runtime); }
  ~Installed() { detail::install_runtime(nullptr); }
  FakeRuntime* operator->() { return runtime.get(); }

  std::shared_ptr<FakeRuntime> runtime = std::make_shared<FakeRuntime>();
};

}  // namespace mobula::testing
