#include "client/console/console.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>

#include "base/model/error_record.h"
#include "base/text/json_writer.h"
#include "client/console/call_options.h"
#include "client/console/program_table.h"
#include "client/console/request_reader.h"
#include "client/console/type_text.h"
#include "mobula/detail/submit.h"
#include "mobula/errors.h"
#include "mobula/get.h"

namespace mobula::internal::runtime::console {
namespace {

using detail::Anchor;
using detail::ErrorKind;
using detail::ErrorRecord;

constexpr const char* variable = "MOBULA_CONSOLE_FD";
constexpr std::size_t longest_answer = std::size_t{64} << 20;
// decoded JSON takes many times the memory
constexpr std::size_t most_bytes_shown = std::size_t{16} << 20;
constexpr std::size_t most_names = 10'000;
// longest wait of one request for a value
constexpr auto timeout = std::chrono::milliseconds(200);

// Exit codes of the commands (docs/api.md).
int exit_code_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::invalid_request: return 2;
    case ErrorKind::connection: return 3;
    case ErrorKind::permission: return 4;
    case ErrorKind::get_timeout: return 5;
    case ErrorKind::unschedulable: return 6;
    case ErrorKind::not_found: return 7;
    case ErrorKind::interrupted: return 130;
    default: return 1;
  }
}

Json refusal(const char* kind, int exit, const std::string& text) {
  return {{"ok", false}, {"kind", kind}, {"exit", exit}, {"error", text}};
}

// Uses the text of the exception for this record.
Json refusal(const ErrorRecord& record) {
  const char* const name = class_name(record.kind);
  const int exit = exit_code_of(record.kind);
  try {
    detail::throw_error(record);
  } catch (const std::exception& thrown) {
    return refusal(name, exit, thrown.what());
  } catch (...) {
    return refusal(name, exit, record.message);
  }
}

Json refusal(const Failure& why) {
  if (why.code == ErrorCode::not_found) return refusal("NotFoundError", 7, why.text);
  if (why.code == ErrorCode::invalid_argument) return refusal("InvalidRequestError", 2, why.text);
  return refusal("Error", 1, why.text);
}

// The value of a console name.
struct KeptResult {
  std::shared_ptr<const Anchor> anchor;
  const detail::TypeDescription* type = nullptr;
};
struct KeptActor {
  std::shared_ptr<const Anchor> anchor;
  const Callable* constructor = nullptr;
};

// Arguments of one call, and the values that they borrow.
struct Arguments {
  std::vector<Json> values;  // borrowed by `outgoing`, so never resized after that is filled
  std::vector<std::shared_ptr<const detail::Outgoing>> outgoing;
  struct Source {
    const detail::Outgoing* value = nullptr;  // null: a result
    const Anchor* result = nullptr;
  };
  std::vector<Source> sources;

  std::vector<detail::Argument> passed_to(const std::shared_ptr<detail::Runtime>& runtime) const {
    std::vector<detail::Argument> passed;
    for (const Source& each : sources) {
      passed.push_back({.value = each.value,
                        .object = each.value != nullptr
                                      ? detail::RawId{}
                                      : detail::require_id(each.result, runtime)});
    }
    return passed;
  }
};

class Console {
 public:
  Json answer(const Json& request) {
    const std::string what = request.value("do", std::string());
    if (what == "describe") return described();
    if (what == "call") return call(request);
    if (what == "create") return create(request);
    if (what == "method") return call_method(request);
    if (what == "get") return get(request);
    if (what == "kill") return kill(request);
    return refusal("InvalidRequestError", 2, "'" + what + "' is not a request of a console");
  }

 private:
  Json described() const {
    Json json = table_.document();
    json["ok"] = true;
    json["interruptible"] = true;  // earlier releases do not accept interruption_line
    return json;
  }

  Result<Arguments> arguments_of(const Json& request, const Callable& callee) const {
    const Json given = request.value("arguments", Json::array());
    if (given.size() != callee.parameters.size()) {
      std::string types;
      for (const auto* each : callee.parameters)
        types += (types.empty() ? "" : ", ") + type_text(*each);
      return failure(ErrorCode::invalid_argument,
                     fmt::format("{} takes ({}), which is {} argument{}, and {} are given",
                                 callee.name, types, callee.parameters.size(),
                                 callee.parameters.size() == 1 ? "" : "s", given.size()));
    }
    Arguments arguments;
    arguments.values.reserve(given.size());
    for (std::size_t i = 0; i < given.size(); ++i) {
      const auto& type = *callee.parameters[i];
      const auto wrong = [&](const std::string& why) {
        return failure(ErrorCode::invalid_argument, fmt::format("argument {} of {} ({}): {}", i + 1,
                                                                callee.name, type_text(type), why));
      };
      if (given[i].contains("name")) {
        const auto source = named_result(given[i]["name"].get<std::string>(), type);
        if (!source) return wrong(source.error().text);
        arguments.sources.push_back({.value = nullptr, .result = (*source)->get()});
        continue;
      }
      arguments.values.push_back(given[i].value("json", Json()));
      auto value = value_of(arguments.values.back(), type);
      if (!value) return wrong(value.error().text);
      arguments.sources.push_back({.value = value->get(), .result = nullptr});
      arguments.outgoing.push_back(std::move(*value));
    }
    return arguments;
  }

  Result<const std::shared_ptr<const Anchor>*> named_result(
      const std::string& name, const detail::TypeDescription& type) const {
    const auto found = results_.find(name);
    if (found == results_.end()) {
      return failure(
          ErrorCode::invalid_argument,
          fmt::format(
              "no result '{}' exists; `let {} = call …` makes one, and text is written \"{}\"",
              name, name, name));
    }
    if (found->second.type->fingerprint != type.fingerprint) {
      return failure(ErrorCode::invalid_argument,
                     fmt::format("{} is {}; only a result of the same type can be passed", name,
                                 type_text(*found->second.type)));
    }
    return &found->second.anchor;
  }

  Json keep(const Json& request, std::shared_ptr<const Anchor> anchor, const Callable& callee) {
    const std::string name = request.value("as", std::string("_"));
    results_[name] = {std::move(anchor), callee.result};
    return {{"ok", true}, {"name", name}, {"type", type_text(*callee.result)}};
  }

  bool is_full(const Json& request) const {
    const std::string name = request.value("as", std::string("_"));
    return results_.size() + actors_.size() >= most_names && !results_.contains(name) &&
           !actors_.contains(name);
  }
  static Json too_many() {
    return refusal("PendingLimitError", 1,
                   fmt::format("{} names are kept; use one of them again", most_names));
  }

  // Converts exceptions of the library to replies.
  template <class Body>
  static Json guarded(const Body& body) {
    try {
      return body();
    } catch (const InvalidRequestError& wrong) {
      return refusal("InvalidRequestError", 2, wrong.what());
    } catch (const UnschedulableError& never) {
      return refusal("UnschedulableError", 6, never.what());
    } catch (const ActorDiedError& dead) {
      return refusal("ActorDiedError", 1, dead.what());
    } catch (const std::exception& failed) {
      return refusal("Error", 1, failed.what());
    }
  }

  Json call(const Json& request) {
    if (is_full(request)) return too_many();
    const auto callee = table_.function(request.value("function", std::string()));
    if (!callee) return refusal(callee.error());
    const auto options = task_options(request.value("options", Json::object()));
    if (!options) return refusal(options.error());
    const auto arguments = arguments_of(request, **callee);
    if (!arguments) return refusal(arguments.error());
    return guarded([&] {
      const auto prepared = detail::prepare(*options);
      if (!prepared.ok()) return refusal(prepared.error());
      const detail::Entry& entry = *(*callee)->entry;
      const auto target = detail::runtime_for(entry, prepared.value()->num_returns);
      const auto passed = arguments->passed_to(target);
      detail::RawId result;
      detail::require_submitted(
          target->submit_task(detail::task_of(entry, prepared.value(), passed, {&result, 1})),
          passed);
      return keep(request, Anchor::adopt(target, {detail::RefKind::object, result}), **callee);
    });
  }

  Json create(const Json& request) {
    if (is_full(request)) return too_many();
    const auto constructor = table_.constructor(request.value("class", std::string()),
                                                request.value("arguments", Json::array()).size());
    if (!constructor) return refusal(constructor.error());
    const auto options = actor_options(request.value("options", Json::object()));
    if (!options) return refusal(options.error());
    const auto arguments = arguments_of(request, **constructor);
    if (!arguments) return refusal(arguments.error());
    return guarded([&] {
      const auto prepared = detail::prepare(*options);
      if (!prepared.ok()) return refusal(prepared.error());
      const std::string name = request.value("as", std::string("_"));
      const auto target = detail::runtime();
      auto anchor = detail::create_actor(*(*constructor)->entry, prepared.value(), target,
                                         arguments->passed_to(target));
      const std::string id = detail::hex(anchor->ref().id);
      actors_[name] = {std::move(anchor), *constructor};
      return Json{{"ok", true}, {"name", name}, {"actor_id", id}};
    });
  }

  Result<const KeptActor*> actor_of(const std::string& name) const {
    const auto found = actors_.find(name);
    if (found != actors_.end()) return &found->second;
    return failure(
        ErrorCode::not_found,
        fmt::format("no actor '{}' exists; `actor {} = CLASS(…)` makes one", name, name));
  }

  Json call_method(const Json& request) {
    if (is_full(request)) return too_many();
    const auto actor = actor_of(request.value("actor", std::string()));
    if (!actor) return refusal(actor.error());
    const auto callee =
        table_.method(*(*actor)->constructor, request.value("method", std::string()));
    if (!callee) return refusal(callee.error());
    const auto options = method_options(request.value("options", Json::object()));
    if (!options) return refusal(options.error());
    const auto arguments = arguments_of(request, **callee);
    if (!arguments) return refusal(arguments.error());
    return guarded([&] {
      const auto prepared = detail::prepare(*options);
      if (!prepared.ok()) return refusal(prepared.error());
      const auto target = detail::runtime_for(*(*callee)->entry, prepared.value()->num_returns);
      const auto passed = arguments->passed_to(target);
      detail::RawId result;
      detail::require_submitted(
          target->call_actor(detail::actor_call_of(
              *(*callee)->entry, detail::require_id((*actor)->anchor.get(), target),
              prepared.value(), passed, {&result, 1})),
          passed);
      return keep(request, Anchor::adopt(target, {detail::RefKind::object, result}), **callee);
    });
  }

  Json get(const Json& request) const {
    const std::string name = request.value("name", std::string());
    const auto found = results_.find(name);
    if (found == results_.end()) {
      return refusal("NotFoundError", 7,
                     fmt::format("no result '{}' exists; `let {} = call …` makes one", name, name));
    }
    return guarded([&] {
      const auto target = detail::runtime();
      const detail::RawId id = detail::require_id(found->second.anchor.get(), target);
      const auto ready =
          target->wait({&id, 1}, 1, std::chrono::steady_clock::now() + timeout, true);
      if (!ready.ok()) return refusal(ready.error());
      if (!ready.value().front()) {
        const auto where = target->context();
        return Json{{"ok", true},
                    {"pending", true},
                    {"object_id", detail::hex(id)},
                    {"job_id", where->job_id},
                    {"node_id", where->node_id}};
      }
      detail::StoredValue stored;
      if (const auto failed = target->get({&id, 1}, {}, {&stored, 1})) return refusal(*failed);
      if (stored.error) return refusal(*stored.error);
      if (stored.bytes.size() > most_bytes_shown) {
        return refusal("Error", 1,
                       fmt::format("the value has {} bytes, and at most {} are shown",
                                   stored.bytes.size(), most_bytes_shown));
      }
      auto value = json_of(stored, *found->second.type);
      if (!value) return refusal(value.error());
      return Json{{"ok", true}, {"value", std::move(*value)}};
    });
  }

  Json kill(const Json& request) {
    const std::string name = request.value("name", std::string());
    const auto actor = actor_of(name);
    if (!actor) return refusal(actor.error());
    return guarded([&] {
      detail::kill_actor((*actor)->anchor, true);
      actors_.erase(name);
      return Json{{"ok", true}};
    });
  }

  const ProgramTable table_;
  std::map<std::string, KeptResult> results_;
  std::map<std::string, KeptActor> actors_;
};

bool send_line(int socket, const std::string& line) {
  for (std::size_t at = 0; at < line.size();) {
    const ssize_t count = ::send(socket, line.data() + at, line.size() - at, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    at += static_cast<std::size_t>(count);
  }
  return true;
}

std::string text_of(const Json& json) { return json_text(json) + "\n"; }

}  // namespace

std::optional<Fd> take_console() {
  const char* given = std::getenv(variable);
  if (given == nullptr) return std::nullopt;
  const int number = std::atoi(given);
  ::unsetenv(variable);
  // A stale number may name any descriptor.
  int kind = 0;
  socklen_t size = sizeof kind;
  if (number <= 2 || ::getsockopt(number, SOL_SOCKET, SO_TYPE, &kind, &size) != 0)
    return std::nullopt;
  ::fcntl(number, F_SETFD, FD_CLOEXEC);
  return Fd(number);
}

void serve_console(Fd socket, std::unique_ptr<detail::ClusterSession> session) {
  {
    RequestReader requests(socket.get());
    Console console;
    while (const auto next = requests.next()) {
      const Json request = Json::parse(next->line, nullptr, false);
      std::string said = text_of(
          next->interrupted     ? refusal("InterruptedError", 130, "the request was interrupted")
          : request.is_object() ? console.answer(request)
                                : refusal("InvalidRequestError", 2, "this is not a JSON object"));
      if (said.size() > longest_answer) {
        said = text_of(refusal(
            "Error", 1,
            fmt::format("the value is too long to be shown: {} bytes as JSON, and at most {} are",
                        said.size(), longest_answer)));
      }
      if (!send_line(socket.get(), said)) break;
    }
  }
  session->shutdown();
  session.reset();
  std::fflush(nullptr);
  ::_exit(0);
}

}  // namespace mobula::internal::runtime::console
