#include "deploy/provider/slurm_provider.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <string_view>
#include <utility>

#include "base/time.h"
#include "deploy/process.h"
#include "deploy/provider/agent_flags.h"
#include "deploy/provider/serve_provider.h"
#include "protocol/program/cluster_files.h"

namespace mobula::internal::provider {
namespace {

using fleet::FailureKind;
using fleet::InstanceReply;
using fleet::InstanceSpec;
using fleet::ProviderCall;
using fleet::ProviderFailure;
using fleet::ProviderReply;
using fleet::ProviderRequest;
using fleet::ProviderState;
using Json = nlohmann::ordered_json;

// One call has 60 s; each command of Slurm gets a part.
constexpr Duration command_timeout = 20s;
constexpr Duration submit_timeout = 35s;
// Tickets without a job are removed after this age, in seconds.
constexpr std::int64_t ticket_age_s = 1800;
constexpr const char* squeue_format = "%i|%j|%T|%e|%k|%r";

ProviderState state_of(std::string_view state) {
  if (state == "PENDING" || state.starts_with("REQUEUE") || state == "SPECIAL_EXIT")
    return ProviderState::pending;
  if (state == "CONFIGURING") return ProviderState::starting;
  if (state == "RUNNING" || state == "SUSPENDED" || state == "STOPPED" || state == "RESIZING" ||
      state == "SIGNALING" || state == "STAGE_OUT")
    return ProviderState::running;
  if (state == "COMPLETING") return ProviderState::ending;
  return ProviderState::failed;  // such as TIMEOUT or NODE_FAIL
}

Result<std::vector<std::string>> words_member(const Json& json, const char* name) {
  std::vector<std::string> words;
  const auto at = json.find(name);
  if (at == json.end()) return words;
  const auto wrong = failure(ErrorCode::invalid_argument,
                             fmt::format("provider slurm: {} is not a list of texts", name));
  if (!at->is_array()) return wrong;
  for (const auto& each : *at) {
    if (!each.is_string()) return wrong;
    words.push_back(each.get<std::string>());
  }
  return words;
}

class SlurmProvider {
 public:
  SlurmProvider(const ProviderRequest& request, std::string mobula)
      : request_(request), mobula_(std::move(mobula)) {}

  ProviderReply answer() {
    ProviderReply reply{.call = request_.call};
    if (auto ready = read_settings(); !ready) {
      reply.error = failure_of(ready.error());
      return reply;
    }
    if (request_.call == ProviderCall::end) {
      for (const auto& each : request_.instances) reply.instances.push_back(end(each));
      return reply;
    }
    auto jobs = squeue();
    if (!jobs) {
      reply.error = command_failure(jobs.error().text);
    } else if (request_.call == ProviderCall::describe) {
      reply.provider = "slurm";
      reply.max_pending = backlog_;
    } else if (request_.call == ProviderCall::list) {
      reply.complete = jobs->complete;
      for (const auto& each : take_duplicates(jobs->jobs)) (void)run({"scancel", "--me", each});
      reply.instances = std::move(jobs->jobs);
      remove_old_files(reply);
    } else {
      for (const auto& each : request_.instances)
        reply.instances.push_back(launched(each, jobs->jobs));
    }
    return reply;
  }

 private:
  Result<void> read_settings() {
    const auto& settings = request_.settings;
    const auto text = [&](const char* name, std::string& to) -> Result<void> {
      const auto at = settings.find(name);
      if (at == settings.end()) return {};
      if (!at->is_string() || at->get<std::string>().empty())
        return failure(ErrorCode::invalid_argument,
                       fmt::format("provider slurm: {} is not a text", name));
      to = at->get<std::string>();
      return {};
    };
    const auto count = [&](const char* name, std::int64_t& to) -> Result<void> {
      const auto at = settings.find(name);
      if (at == settings.end()) return {};
      if (!at->is_number_integer() || at->get<std::int64_t>() < 1 ||
          at->get<std::int64_t>() > 1'000'000)
        return failure(ErrorCode::invalid_argument,
                       fmt::format("provider slurm: {} is not a count from 1 to 1000000", name));
      to = at->get<std::int64_t>();
      return {};
    };
    const auto prefix = std::filesystem::path(mobula_).parent_path().parent_path();
    template_ = (prefix / "share/mobula/slurm/joined.sbatch").string();
    for (const auto& read :
         {text("directory", directory_), text("template", template_), text("mobula", mobula_),
          count("backlog", backlog_), count("warning_s", warning_s_)}) {
      if (!read) return read.error();
    }
    if (directory_.empty()) {
      return failure(ErrorCode::invalid_argument,
                     "provider slurm: directory is missing; name one that all nodes share");
    }
    directory_ = absolute_path(directory_);
    if (!path_exists(template_)) {
      return failure(ErrorCode::invalid_argument,
                     fmt::format("provider slurm: no template {}; set template", template_));
    }
    auto arguments = words_member(settings, "arguments");
    if (!arguments) return arguments.error();
    arguments_ = std::move(*arguments);
    return make_private_dir(directory_);
  }

  std::string file_of(const std::string& name, const char* suffix) const {
    return directory_ + "/" + name + suffix;
  }

  // The standard output of a command of Slurm; the error has its standard error.
  Result<std::string> run(std::vector<std::string> words) const {
    deploy::Command command;
    command.words = std::move(words);
    command.environment = {
        {"SLURM_TIME_FORMAT", "%s"}, {"MOBULA", mobula_}, {"MOBULA_CLUSTER", ""}};
    const auto outcome = deploy::run(command, "", command_timeout);
    if (!outcome) return outcome.error();
    const auto& name = command.words.front();
    if (outcome->timed_out) {
      return failure(ErrorCode::timed_out,
                     fmt::format("{}: no reply within {} s", name, command_timeout / 1s));
    }
    if (outcome->code != 0) {
      return failure(
          ErrorCode::unavailable,
          fmt::format("{}: {}", name,
                      fleet::plain_text(outcome->err.empty() ? outcome->out : outcome->err)));
    }
    return outcome->out;
  }

  static ProviderFailure command_failure(const std::string& text) {
    return {.kind = kind_of_slurm_error(text), .text = fleet::plain_text(text), .retry_after = {}};
  }

  Result<SlurmJobs> squeue() const {
    const auto text = run({"squeue", "--me", "-h", "-o", squeue_format});
    if (!text) return text.error();
    return parse_squeue(*text, request_.cluster_id);
  }

  InstanceReply launched(const InstanceSpec& instance, std::vector<InstanceReply>& jobs) {
    InstanceReply reply{.name = instance.name};
    const auto known = std::ranges::find(jobs, instance.name, &InstanceReply::name);
    if (known != jobs.end()) {
      reply.ref = known->ref;
      return reply;
    }
    const auto pending = std::ranges::count(jobs, ProviderState::pending, &InstanceReply::state);
    if (pending >= backlog_) {
      reply.error = ProviderFailure{
          .kind = FailureKind::capacity,
          .text = fmt::format("{} jobs are pending; backlog is {}", pending, backlog_),
          .retry_after = 30s};
      return reply;
    }
    if (monotonic_now() - begin_ > submit_timeout) {
      reply.error = ProviderFailure{.kind = FailureKind::transient,
                                    .text = "Slurm was too slow for all launches of one call",
                                    .retry_after = {}};
      return reply;
    }
    auto ref = submit(instance);
    if (!ref) {
      std::error_code ignored;
      std::filesystem::remove(file_of(instance.name, ".ticket"), ignored);
      const bool ours = ref.error().code == ErrorCode::invalid_argument;
      reply.error = ours ? failure_of(ref.error()) : command_failure(ref.error().text);
      return reply;
    }
    reply.ref = *ref;
    jobs.push_back({.name = instance.name, .ref = *ref, .state = ProviderState::pending});
    return reply;
  }

  Result<std::string> submit(const InstanceSpec& instance) const {
    const auto ticket = file_of(instance.name, ".ticket");
    const auto flags = agent_flags(instance, request_.head, ticket, false);
    if (!flags) return flags.error();
    const auto own = words_member(instance.config, "arguments");
    if (!own) return own.error();
    if (!instance.ticket.empty()) {
      if (auto saved = write_file(ticket, instance.ticket + "\n", 0600); !saved)
        return saved.error();
    }
    std::vector<std::string> words{"sbatch",
                                   "--parsable",
                                   "--job-name=" + instance.name,
                                   "--comment=" + instance.type,
                                   fmt::format("--signal=B:TERM@{}", warning_s_),
                                   "--output=" + file_of(instance.name, ".log"),
                                   "--nodes=1",
                                   "--no-requeue"};
    words.insert(words.end(), arguments_.begin(), arguments_.end());
    words.insert(words.end(), own->begin(), own->end());
    words.push_back(template_);
    words.insert(words.end(), flags->begin(), flags->end());
    const auto text = run(std::move(words));
    if (!text) return text.error();
    // ID, or ID;CLUSTER.
    const auto id = text->substr(0, text->find_first_of(";\n"));
    if (id.empty() || id.find_first_not_of("0123456789") != std::string::npos) {
      return failure(ErrorCode::corrupt, fmt::format("sbatch: expected the id of a job, got '{}'",
                                                     fleet::plain_text(*text)));
    }
    return id;
  }

  // The name selects the job, so that no other job is ended by a number.
  InstanceReply end(const InstanceSpec& instance) const {
    InstanceReply reply{.name = instance.name, .ref = instance.ref};
    std::vector<std::string> words{"scancel", "--me", "--jobname=" + instance.name};
    if (!instance.ref.empty()) words.push_back(instance.ref);
    const auto done = run(std::move(words));
    // scancel fails for a job that ended.
    if (!done && !has_ended(instance)) {
      reply.error = command_failure(done.error().text);
      return reply;
    }
    std::error_code ignored;
    std::filesystem::remove(file_of(instance.name, ".ticket"), ignored);
    return reply;
  }

  bool has_ended(const InstanceSpec& instance) const {
    const auto found = squeue();
    if (!found || !found->complete) return false;
    const auto job = std::ranges::find(found->jobs, instance.name, &InstanceReply::name);
    return job == found->jobs.end() || job->state == ProviderState::ending ||
           (!instance.ref.empty() && job->ref != instance.ref);
  }

  // Tickets and logs of instances that ended.
  void remove_old_files(const ProviderReply& reply) const {
    const auto now_s = wall_clock_ms() / 1000;
    for (const auto& path : entries_of(directory_)) {
      const auto file = std::filesystem::path(path);
      const auto name = file.stem().string();
      const bool ours = name.starts_with(fmt::format("mobula-{}-", request_.cluster_id)) &&
                        (file.extension() == ".ticket" || file.extension() == ".log");
      struct stat status {};
      if (!ours || ::stat(path.c_str(), &status) != 0) continue;
      const bool lives =
          std::ranges::find(reply.instances, name, &InstanceReply::name) != reply.instances.end();
      if (!lives && reply.complete && now_s - status.st_mtim.tv_sec > ticket_age_s)
        ::unlink(path.c_str());
    }
  }

  const ProviderRequest& request_;
  std::string mobula_;
  std::string directory_{};
  std::string template_{};
  std::vector<std::string> arguments_{};
  std::int64_t backlog_ = 4;
  std::int64_t warning_s_ = 120;
  Time begin_ = monotonic_now();
};

}  // namespace

std::vector<std::string> take_duplicates(std::vector<InstanceReply>& jobs) {
  const auto rank = [](const InstanceReply& job) {
    std::uint64_t id = 0;
    std::from_chars(job.ref.data(), job.ref.data() + job.ref.size(), id);
    const int waits = job.state == ProviderState::ending    ? 2
                      : job.state == ProviderState::pending ? 1
                                                            : 0;
    return std::pair(waits, id);
  };
  std::ranges::sort(jobs, [&](const InstanceReply& a, const InstanceReply& b) {
    return std::pair(a.name, rank(a)) < std::pair(b.name, rank(b));
  });
  std::vector<std::string> others;
  std::vector<InstanceReply> first;
  for (auto& each : jobs) {
    const bool ends = each.state == ProviderState::ending;
    if (first.empty() || first.back().name != each.name) {
      first.push_back(std::move(each));
    } else if (!ends) {
      others.push_back(each.ref);
    }
  }
  jobs = std::move(first);
  return others;
}

FailureKind kind_of_slurm_error(const std::string& text) {
  struct Known {
    std::string_view words;
    FailureKind kind;
  };
  // From slurm_errno.c of Slurm 22.05.
  static constexpr Known known[] = {
      {"QOS", FailureKind::quota},
      {"Job violates accounting", FailureKind::quota},
      {"limit on number", FailureKind::quota},
      {"Slurm temporarily unable to accept job", FailureKind::quota},
      {"Invalid account", FailureKind::auth},
      {"Access/permission denied", FailureKind::auth},
      {"User's group not permitted", FailureKind::auth},
      {"uthentication", FailureKind::auth},
      {"Required partition not available", FailureKind::capacity},
      {"Required node not available", FailureKind::capacity},
      {"Nodes required for job are DOWN", FailureKind::capacity},
      {"Requested time limit is invalid", FailureKind::invalid},
      {"nvalid", FailureKind::invalid},
      {"nrecognized option", FailureKind::invalid},
      {"Requested node configuration is not available", FailureKind::invalid},
      {"More processors requested than permitted", FailureKind::invalid},
      {"Node count specification", FailureKind::invalid},
      {"Unable to open file", FailureKind::invalid},
      {"cannot run", FailureKind::invalid},
  };
  for (const auto& each : known) {
    if (text.find(each.words) != std::string::npos) return each.kind;
  }
  return FailureKind::transient;
}

SlurmJobs parse_squeue(const std::string& text, const std::string& cluster_id) {
  SlurmJobs found;
  const auto prefix = fmt::format("mobula-{}-", cluster_id);
  std::string_view left = text;
  while (!left.empty()) {
    const auto line = left.substr(0, left.find('\n'));
    left.remove_prefix(std::min(left.size(), line.size() + 1));
    if (line.empty()) continue;
    std::vector<std::string> parts;
    std::string_view rest = line;
    for (int i = 0; i < 5 && rest.find('|') != std::string_view::npos; ++i) {
      parts.emplace_back(rest.substr(0, rest.find('|')));
      rest.remove_prefix(parts.back().size() + 1);
    }
    if (parts.size() < 5) {
      found.complete = false;
      continue;
    }
    if (!parts[1].starts_with(prefix)) continue;
    InstanceReply row{.name = parts[1], .ref = parts[0], .state = state_of(parts[2])};
    if (parts[4] != "(null)") row.type = parts[4];
    if (row.state == ProviderState::failed) row.reason = parts[2];
    if (row.state == ProviderState::pending || parts[2] == "SUSPENDED") row.reason = rest;
    std::int64_t ends_at = 0;
    const auto end = parts[3].data() + parts[3].size();
    const bool has_end =
        std::from_chars(parts[3].data(), end, ends_at).ptr == end && !parts[3].empty();
    if (has_end && row.state != ProviderState::pending) row.ends_at = ends_at;
    found.jobs.push_back(std::move(row));
  }
  return found;
}

ProviderReply answer_slurm(const ProviderRequest& request, const std::string& mobula) {
  return SlurmProvider(request, mobula).answer();
}

}  // namespace mobula::internal::provider
