#include "deploy/launch_position.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace mobula::internal::deploy {
namespace {

constexpr std::size_t max_names = 65'536;
constexpr int max_ranks = 1'000'000;

Failure wrong(std::string text) { return failure(ErrorCode::invalid_argument, std::move(text)); }

// Names of the variables of one launcher. The first variable that is set counts.
struct Launcher {
  const char* name;
  std::vector<const char*> rank, size, local_rank, run;
};

const std::vector<Launcher>& launchers() {
  // Launchers that may run within a Slurm job come first, because there the variables of Slurm
  // describe the batch script.
  static const std::vector<Launcher> all{
      {"Open MPI",
       {"OMPI_COMM_WORLD_RANK"},
       {"OMPI_COMM_WORLD_SIZE"},
       {"OMPI_COMM_WORLD_LOCAL_RANK"},
       {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid"}},
      {"PMI", {"PMI_RANK"}, {"PMI_SIZE"}, {"MPI_LOCALRANKID", "SLURM_LOCALID"}, {"PMI_JOBID"}},
      {"Slurm",
       {"SLURM_PROCID"},
       {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SLURM_NPROCS"},
       {"SLURM_LOCALID"},
       {}}};
  return all;
}

std::optional<std::pair<const char*, std::string>> first_of(const Environment& environment,
                                                            const std::vector<const char*>& names) {
  for (const char* name : names) {
    if (auto value = environment(name); value && !value->empty()) return std::pair(name, *value);
  }
  return std::nullopt;
}

Result<int> number_of(const std::string& name, const std::string& text) {
  int number = -1;
  const auto end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (read.ec != std::errc() || read.ptr != end || number < 0 || number > max_ranks) {
    return wrong(fmt::format("{}: '{}' is not a whole number from 0 to {}", name, text, max_ranks));
  }
  return number;
}

// Letters, digits, dots, and dashes, within the length limit of a directory name.
std::string as_directory_name(const std::string& text) {
  std::string name;
  for (const char c : text.substr(0, 100)) {
    const bool fine = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '-' || c == '_' || c == '.';
    name += fine ? c : '-';
  }
  return name;
}

Result<void> read_launcher(const Environment& environment, const Launcher& launcher,
                           LaunchPosition& position) {
  position.launcher = launcher.name;
  const auto read = [&](const std::vector<const char*>& names, int& to,
                        bool required) -> Result<void> {
    const auto found = first_of(environment, names);
    if (!found && !required) return {};
    if (!found)
      return wrong(fmt::format("{} has set {}, but not {}", launcher.name, launcher.rank.front(),
                               names.front()));
    const auto number = number_of(found->first, found->second);
    if (!number) return number.error();
    to = *number;
    return {};
  };
  if (auto done = read(launcher.rank, position.rank, true); !done) return done;
  if (auto done = read(launcher.size, position.size, true); !done) return done;
  if (auto done = read(launcher.local_rank, position.local_rank, false); !done) return done;
  if (const auto run = first_of(environment, launcher.run)) {
    position.run = as_directory_name(run->second);
    position.unique = true;
  }
  return {};
}

// Reads the variables of Slurm about the job and its nodes, for any launcher in it.
Result<void> read_job(const Environment& environment, LaunchPosition& position) {
  const auto job = environment("SLURM_JOB_ID");
  if (!job) return {};
  const auto step = environment("SLURM_STEP_ID");
  if (position.launcher == "Slurm" && !step && position.size > 1) {
    return wrong(
        fmt::format("this is the batch script of a job of {} tasks; start all of them with: srun "
                    "mobula symmetric …",
                    position.size));
  }
  if (position.run.empty() && position.launcher == "Slurm") {
    position.run = as_directory_name(fmt::format("{}.{}.{}", *job, step.value_or("batch"),
                                                 environment("SLURM_RESTART_COUNT").value_or("0")));
    position.unique = true;
  } else if (position.run.empty()) {
    position.run = as_directory_name(*job);
  }
  const auto nodes = first_of(environment, {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"});
  if (!nodes) return {};
  auto hosts = expand_hosts(nodes->second);
  if (!hosts) return hosts.error();
  position.hosts = std::move(hosts).value();
  return {};
}

}  // namespace

Result<LaunchPosition> position_of(const Environment& environment, const PositionFlags& flags) {
  LaunchPosition position;
  position.launcher = "none";
  if (flags.rank.has_value() != flags.size.has_value()) {
    return wrong("--rank and --size go together");
  }
  if (flags.rank) {
    position.launcher = "flags";
    position.rank = *flags.rank;
    position.size = *flags.size;
    position.local_rank = flags.local_rank.value_or(0);
  } else {
    for (const auto& launcher : launchers()) {
      if (!first_of(environment, launcher.rank)) continue;
      if (auto read = read_launcher(environment, launcher, position); !read) return read.error();
      break;
    }
    if (flags.local_rank) position.local_rank = *flags.local_rank;
  }
  if (auto read = read_job(environment, position); !read) return read.error();
  if (position.size < 1 || position.rank >= position.size) {
    return wrong(fmt::format("rank {} of {}: ranks count from 0 and are fewer than the size",
                             position.rank, position.size));
  }
  if (position.rank == 0 && position.local_rank != 0) {
    return wrong(fmt::format("rank 0 has the local rank {}; it has 0, for the head runs there",
                             position.local_rank));
  }
  if (!flags.run.empty()) position.run = as_directory_name(flags.run), position.unique = false;
  if (position.run.empty() || position.run == "." || position.run == "..") position.run = "run";
  return position;
}

Result<std::vector<std::string>> expand_hosts(std::string_view list) {
  std::vector<std::string> hosts;
  const auto refuse = [&](const char* why) {
    return wrong(fmt::format("'{}' is not a list of hosts such as n[1-3,7]: {}", list, why));
  };
  std::vector<std::string> heads{""};  // prefixes of the name that is being read
  const auto add_name = [&] {
    for (auto& each : heads) {
      if (!each.empty()) hosts.push_back(std::move(each));
    }
    heads.assign(1, "");
  };
  for (std::size_t at = 0; at < list.size(); ++at) {
    if (list[at] == ',') {
      add_name();
      continue;
    }
    if (list[at] != '[') {
      for (auto& each : heads) each += list[at];
      continue;
    }
    const auto close = list.find(']', at);
    if (close == std::string_view::npos) return refuse("a bracket is not closed");
    std::vector<std::string> numbers;
    for (std::size_t from = at + 1; from <= close;) {
      const auto end = std::min(list.find(',', from), close);
      const auto range = list.substr(from, end - from);
      const auto dash = std::min(range.find('-'), range.size());
      const std::string low(range.substr(0, dash));
      const std::string high(dash == range.size() ? range : range.substr(dash + 1));
      const auto first = number_of("number", low);
      const auto last = number_of("number", high);
      if (!first || !last || *first > *last)
        return refuse("a range is not two numbers, the smaller one first");
      for (int each = *first; each <= *last && numbers.size() <= max_names; ++each) {
        numbers.push_back(fmt::format("{:0>{}}", each, low.size()));
      }
      from = end + 1;
    }
    if (heads.size() * numbers.size() > max_names) return refuse("more than 65,536 names");
    std::vector<std::string> longer;
    for (const auto& each : heads) {
      for (const auto& number : numbers) longer.push_back(each + number);
    }
    heads = std::move(longer);
    at = close;
  }
  add_name();
  if (hosts.size() > max_names) return refuse("more than 65,536 names");
  return hosts;
}

}  // namespace mobula::internal::deploy
