#include "deploy/rollout.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "base/hash.h"
#include "deploy/process.h"

namespace mobula::internal::deploy {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t max_at_once = 32;
constexpr Duration short_patience = 30s;  // beyond what connecting may take
constexpr Duration start_patience = 120s;
constexpr Duration copy_patience = 900s;

std::string words_of(const std::vector<std::string>& flags) {
  std::string words;
  for (const auto& each : flags) words += " " + quoted(each);
  return words;
}

// As `uname -s` and `-m` say it.
std::string own_machine() {
  utsname names{};
  return ::uname(&names) == 0 ? fmt::format("{} {}", names.sysname, names.machine) : "";
}

}  // namespace

Rollout::Rollout(const Inventory& inventory, RolloutOptions options)
    : inventory_(inventory), options_(options) {
  for (const auto& host : inventory.hosts) {
    Machine& machine = machines_.emplace_back(Remote(inventory, host));
    machine.report.host = host.name;
    machine.report.head = host.head;
  }
}

// Runs `step` for those that are not done, each in a thread of a few.
void Rollout::for_each(const Step& step, const std::function<bool(const Machine&)>& which,
                       std::size_t at_once) {
  std::vector<Machine*> chosen;
  for (auto& each : machines_) {
    if (!each.done && which(each)) chosen.push_back(&each);
  }
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> threads;
  const auto work = [&] {
    for (std::size_t at = next++; at < chosen.size(); at = next++) {
      const Time begin = monotonic_now();
      step(*chosen[at]);
      chosen[at]->report.seconds += static_cast<double>((monotonic_now() - begin).count()) / 1e9;
    }
  };
  for (std::size_t i = 0; i < std::min({at_once, max_at_once, chosen.size()}); ++i)
    threads.emplace_back(work);
  for (auto& each : threads) each.join();
}

void Rollout::settle(Machine& machine, const std::string& result, const std::string& detail) {
  machine.report.result = result;
  machine.report.detail = detail;
  machine.done = true;
}

void Rollout::give_up(Machine& machine, const Failure& why) {
  settle(machine,
         why.code == ErrorCode::unavailable         ? "unreachable"
         : why.code == ErrorCode::permission_denied ? "refused"
                                                    : "failed",
         why.text);
}

void Rollout::probe(const std::string& hash) {
  const auto patience = inventory_.connect_timeout + short_patience;
  for_each(
      [&](Machine& machine) {
        const auto said = machine.remote.act("probe", {{"hash", hash}}, "", patience);
        if (!said) return give_up(machine, said.error());
        std::istringstream lines(*said);
        for (std::string line; std::getline(lines, line);) {
          if (line == "program=yes") machine.has_program = true;
          if (line == "runs=true" || line == "runs=false") machine.runs = true;
          if (line.starts_with("deployed=")) machine.deployed = line.substr(9);
          if (!hash.empty() && line.starts_with("machine=") && line.substr(8) != own_machine()) {
            settle(machine, "failed",
                   fmt::format("the program here is for {}, and that is {}", own_machine(),
                               line.substr(8)));
          }
        }
      },
      [](const Machine&) { return true; }, max_at_once);
}

// What the program there says to the flags, before anything that runs is ended for them.
void Rollout::check(const std::string& hash) {
  for_each(
      [&](Machine& machine) {
        const auto flags = words_of(flags_of(machine, "HEAD:1"));
        const auto said = machine.remote.act("check", {{"hash", hash}, {"flags", flags}}, "",
                                             inventory_.connect_timeout + short_patience);
        if (!said) give_up(machine, said.error());
      },
      [](const Machine&) { return true; }, max_at_once);
}

std::vector<std::string> Rollout::flags_of(const Machine& machine, const std::string& address) {
  auto flags = machine.remote.host().flags;
  if (machine.report.head) {
    flags.insert(flags.begin(), "--head");
  } else {
    flags.insert(flags.begin(), {"--address", address});
  }
  return flags;
}

std::vector<HostReport> Rollout::bring_up(const Bundle& bundle) {
  for (auto& each : machines_) {
    // What it was started with, so that a change of it is noticed.
    const auto settings = bundle.hash() + words_of(each.remote.host().flags);
    each.settings = fmt::format("{:016x}", fnv1a(settings));
  }
  probe(bundle.hash());
  for (auto& each : machines_) {
    if (each.done) continue;
    if (each.runs && each.deployed == each.settings) {
      settle(each, "unchanged");
    } else if (options_.dry_run) {
      settle(each, each.runs ? "would replace" : "would start",
             each.has_program ? "" : "after copying the program");
    }
  }
  if (options_.dry_run) return reports();
  if (std::ranges::any_of(machines_,
                          [](const Machine& each) { return !each.done && !each.has_program; })) {
    const auto archive = bundle.archive();
    for_each(
        [&](Machine& machine) {
          if (!archive) return give_up(machine, archive.error());
          const auto said =
              machine.remote.act("receive", {{"hash", bundle.hash()}}, *archive, copy_patience);
          if (!said) give_up(machine, said.error());
        },
        [](const Machine& each) { return !each.has_program; }, max_at_once);
  }
  check(bundle.hash());
  for_each([&](Machine& machine) { start(machine, bundle.hash()); },
           [](const Machine& each) { return each.report.head; }, 1);
  bring_up_nodes(bundle.hash());
  return reports();
}

void Rollout::bring_up_nodes(const std::string& hash) {
  const bool all_done =
      std::ranges::all_of(machines_, [](const Machine& each) { return each.done; });
  if (!all_done) learn_of_head();
  for (auto& each : machines_) {
    if (!each.done && address_.empty())
      settle(each, "skipped", "there is no head to join: " + machines_.front().report.host);
  }
  const auto step = [&](Machine& machine) { start(machine, hash); };
  for_each(
      step, [](const Machine& each) { return !each.runs; }, max_at_once);
  for_each(
      step, [](const Machine& each) { return each.runs; }, options_.at_once);
}

// Whether it was started now or before.
void Rollout::learn_of_head() {
  Machine& head = machines_.front();
  if (head.report.result != "started" && head.report.result != "replaced" &&
      head.report.result != "unchanged")
    return;
  const auto facts = head.remote.act("facts", {}, "", inventory_.connect_timeout + short_patience);
  if (!facts) return give_up(head, facts.error());
  const auto end = std::min(facts->find('\n'), facts->size());
  const auto json = Json::parse(facts->substr(0, end), nullptr, false);
  if (!json.is_object() || !json.contains("address") || !json["address"].is_string()) {
    return settle(head, "failed", "the head's file there says no address");
  }
  address_ = json["address"].get<std::string>();
  key_ = end < facts->size() ? facts->substr(end + 1) : "";
}

void Rollout::start(Machine& machine, const std::string& hash) {
  const bool was_running = machine.runs;
  if (was_running) {
    const auto ended = machine.remote.act(
        "end", {}, "", inventory_.grace + short_patience + inventory_.connect_timeout);
    if (!ended) return give_up(machine, ended.error());
  }
  const auto flags = flags_of(machine, address_);
  const auto said = machine.remote.act("start",
                                       {{"hash", hash},
                                        {"flags", words_of(flags)},
                                        {"settings", machine.settings},
                                        {"keyed", machine.report.head ? "no" : "yes"}},
                                       machine.report.head ? "" : key_, start_patience);
  if (!said) return give_up(machine, said.error());
  const auto json = Json::parse(*said, nullptr, false);
  const std::string member = machine.report.head ? "address" : "node_id";
  const bool known = json.is_object() && json.contains(member) && json[member].is_string();
  settle(
      machine, was_running ? "replaced" : "started",
      known ? (machine.report.head ? "head at " : "node ") + json[member].get<std::string>() : "");
}

std::vector<HostReport> Rollout::take_down() {
  if (options_.dry_run) {
    probe("");
    for (auto& each : machines_) {
      if (!each.done) settle(each, each.runs ? "would stop" : "down");
    }
    return reports();
  }
  const auto patience = inventory_.grace + inventory_.connect_timeout + short_patience;
  const auto step = [&](Machine& machine) {
    const auto said = machine.remote.act("stop", {}, "", patience);
    if (!said) return give_up(machine, said.error());
    settle(machine, said->starts_with("nothing") ? "down" : "stopped");
  };
  for_each(
      step, [](const Machine& each) { return !each.report.head; }, max_at_once);
  for_each(
      step, [](const Machine&) { return true; }, 1);
  return reports();
}

std::vector<HostReport> Rollout::look() {
  probe("");
  for (auto& each : machines_) {
    if (!each.done) settle(each, each.runs ? "runs" : "down");
  }
  return reports();
}

std::vector<HostReport> Rollout::reports() {
  std::vector<HostReport> all;
  for (auto& each : machines_) all.push_back(each.report);
  return all;
}

}  // namespace mobula::internal::deploy
