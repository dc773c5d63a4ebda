#include "head/core/view/requests/submission_json.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/hash.h"
#include "base/model/accelerator_vendor.h"
#include "base/model/labels/label_syntax.h"
#include "base/model/request_rules.h"
#include "base/text/json_writer.h"
#include "head/core/jobs/submission_table.h"
#include "head/core/view/documents.h"
#include "head/core/view/event_json.h"
#include "head/core/view/requests/request_json.h"

namespace mobula::internal::head {
namespace {

constexpr std::size_t max_words_bytes = 512 * 1024;
constexpr std::size_t max_name_bytes = 256;
constexpr std::size_t max_labels = 64;
constexpr std::int64_t max_retries = 1'000'000;
constexpr std::int64_t max_span_ms = std::int64_t{365} * 24 * 3600 * 1000;

Failure wrong_in_job(const std::string& member, const std::string& rule) {
  return failure(ErrorCode::invalid_argument, fmt::format("submit: {} {}", member, rule));
}

Result<void> read_text(const std::string& member, const Json& value, std::string& to) {
  if (!value.is_string()) return wrong_in_job(member, "is a text");
  to = value.get<std::string>();
  if (to.find('\0') != std::string::npos) return wrong_in_job(member, "has a zero byte");
  return {};
}

Result<void> read_name(const std::string& member, const Json& value, std::string& to) {
  if (auto read = read_text(member, value, to); !read) return read;
  if (const auto broken = check_text(member, to))
    return failure(ErrorCode::invalid_argument, "submit: " + to_string(*broken));
  return {};
}

Result<void> read_number(const std::string& member, const Json& value, std::int64_t least,
                         std::int64_t most, std::int64_t& to) {
  if (!value.is_number_integer() || value.get<std::int64_t>() < least ||
      value.get<std::int64_t>() > most) {
    return wrong_in_job(member, fmt::format("is a whole number from {} to {}", least, most));
  }
  to = value.get<std::int64_t>();
  return {};
}

Result<void> read_argv(const Json& value, std::vector<std::string>& to) {
  if (!value.is_array() || value.empty())
    return wrong_in_job("argv", "is a list: the program and its arguments");
  for (const auto& each : value) {
    if (auto read = read_text("argv", each, to.emplace_back()); !read) return read;
  }
  if (to.front().empty()) return wrong_in_job("argv", "begins with the program, which has a name");
  return {};
}

Result<void> read_environment(const Json& value, Environment& to) {
  if (!value.is_object()) return wrong_in_job("env", "is an object of texts");
  for (const auto& [name, text] : value.items()) {
    if (auto read = read_text("env, " + name, text, to[name]); !read) return read;
    if (is_accelerator_variable(name)) {
      return wrong_in_job(
          "env", fmt::format("has {}, which the runtime sets to the devices of the job; request "
                             "them with num_gpus or the resource of the vendor",
                             name));
    }
  }
  if (const auto broken = check_environment(to))
    return failure(ErrorCode::invalid_argument, "submit: " + to_string(*broken));
  return {};
}

Result<void> read_labels(const Json& value, Labels& to) {
  if (!value.is_object() || value.size() > max_labels) {
    return wrong_in_job("labels", fmt::format("is an object of at most {} texts", max_labels));
  }
  for (const auto& [name, text] : value.items()) {
    if (auto read = read_name("labels, " + name, text, to[name]); !read) return read;
  }
  if (const auto good = check_labels(to); !good)
    return failure(ErrorCode::invalid_argument, "submit: " + good.error().text);
  return {};
}

Result<void> read_dir(const std::string& member, const Json& value, std::string& to) {
  if (auto read = read_text(member, value, to); !read) return read;
  if (!to.empty() && to.front() != '/') return wrong_in_job(member, "is an absolute path");
  return {};
}

Result<void> read_span(const std::string& member, const Json& value, Duration& to) {
  std::int64_t ms = 0;
  if (auto read = read_number(member, value, 0, max_span_ms, ms); !read) return read;
  to = std::chrono::milliseconds(ms);
  return {};
}

// A job allocates no CPU unless it requests one. A job without requests needs a node with a CPU, as
// actors do. A job that requests more than memory, such as a GPU, runs on any node with that
// resource.
Result<void> read_request(const Json& value, Request& to) {
  if (!value.is_object()) return wrong_in_job("request", "is an object");
  const auto parsed = shape_from_json(json_text(value));
  if (!parsed) return parsed.error();
  const auto* request = std::get_if<ParsedRequest>(&*parsed);
  if (request == nullptr)
    return wrong_in_job("request", "requests a placement group; a job requests resources");
  to = request->request;
  const bool others =
      value.contains("num_gpus") || value.contains("resources") || value.contains("gpu_memory");
  if (value.contains("num_cpus")) return {};
  to.resources.set(resource::cpu, Quantity());
  if (!others) to.required_totals.set(resource::cpu, Quantity::whole(1));
  return {};
}

Result<void> read_member(const std::string& name, const Json& value, SubmissionRow& row,
                         std::int64_t& priority) {
  if (name == "job_id") {
    const auto bits = value.is_string() ? bits_from_hex(value.get<std::string>()) : std::nullopt;
    if (!bits || JobId(*bits).empty())
      return wrong_in_job("job_id", "is an id of 32 hexadecimal digits");
    row.job = JobId(*bits);
    return {};
  }
  if (name == "argv") return read_argv(value, row.entry.argv);
  if (name == "name") return read_name(name, value, row.name);
  if (name == "labels") return read_labels(value, row.labels);
  if (name == "env") return read_environment(value, row.env);
  if (name == "workdir" || name == "cwd") {
    if (name == "workdir") row.entry.needs_working_dir = true;
    return read_dir(name, value, row.entry.working_dir);
  }
  if (name == "retries") return read_number(name, value, -1, max_retries, row.retries);
  if (name == "time_limit_ms") return read_span(name, value, row.entry.time_limit);
  if (name == "grace_ms") return read_span(name, value, row.entry.grace);
  if (name == "priority") return read_number(name, value, -1000, 1000, priority);
  if (name == "submitted_ms")
    return read_number(name, value, 0, std::int64_t{1} << 60, row.submitted_ms);
  if (name == "request") return read_request(value, row.request);
  return wrong_in_job(name, "is not known");
}

Json when(std::int64_t ms) { return ms == 0 ? Json(nullptr) : Json(ms); }

}  // namespace

Result<SubmissionRow> submission_from_json(const std::string& text) {
  if (text.size() > max_words_bytes) {
    return wrong_in_job("text", fmt::format("is over {} KiB: put large arguments into a file",
                                            max_words_bytes / 1024));
  }
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object()) return wrong_in_job("text", "is not a JSON object in UTF-8");
  SubmissionRow row;
  std::int64_t priority = 0;
  if (auto read = read_request(json.value("request", Json::object()), row.request); !read)
    return read.error();
  for (const auto& [name, value] : json.items()) {
    if (auto read = read_member(name, value, row, priority); !read) return read.error();
  }
  if (row.job.empty()) return wrong_in_job("job_id", "is missing");
  if (!row.entry.given()) return wrong_in_job("argv", "is missing");
  row.terms.priority = static_cast<int>(priority);
  if (row.name.empty()) {
    row.name = row.entry.argv.front()
                   .substr(row.entry.argv.front().rfind('/') + 1)
                   .substr(0, max_name_bytes);
    if (check_text("name", row.name)) row.name = "job";
  }
  return row;
}

Json submission_json(const SubmissionRow& row) {
  Json json = {{"job_id", row.job.hex()},
               {"state", to_string(row.state)},
               {"name", row.name},
               {"node_id", id_json(row.node)},
               {"attempts", row.attempts},
               {"retries", row.retries},
               {"exit_code", row.exit_code < 0 ? Json(nullptr) : Json(row.exit_code)},
               {"signal", row.signal == 0 ? Json(nullptr) : Json(row.signal)},
               {"reason", row.reason},
               {"argv", row.entry.argv},
               {"workdir", row.entry.working_dir},
               {"labels", row.labels},
               {"priority", row.terms.priority},
               {"time_limit_ms", row.entry.time_limit / std::chrono::milliseconds(1)},
               {"submitted_ms", when(row.submitted_ms)},
               {"started_ms", when(row.started_ms)},
               {"ended_ms", when(row.ended_ms)},
               {"submitted_at", utc_or_null(row.submitted_ms)},
               {"started_at", utc_or_null(row.started_ms)},
               {"ended_at", utc_or_null(row.ended_ms)}};
  add_request(json, row.request);
  return json;
}

}  // namespace mobula::internal::head
