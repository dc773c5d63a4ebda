#include "deploy/rollout.h"

#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "base/hash.h"
#include "base/id.h"
#include "deploy/process.h"

namespace mobula::internal::deploy {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t max_at_once = 32;
// limit of short actions, in addition to the connect timeout
constexpr Duration short_timeout = 30s;
constexpr Duration start_margin = 20s;  // transfer time, in addition to the start timeout
constexpr Duration copy_timeout = 900s;

std::string words_of(const std::vector<std::string>& flags) {
  std::string words;
  for (const auto& each : flags) words += " " + quoted(each);
  return words;
}

// In the format of `uname -s` and `-m`.
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
    machine.flags = host.flags;
    const bool given = std::ranges::any_of(host.flags, [](const auto& flag) {
      return flag == "--grace" || flag.starts_with("--grace=");
    });
    if (!given) machine.flags.push_back(fmt::format("--grace={}", inventory.grace / 1s));
  }
}

// Runs `step` for unfinished machines, on a limited number of threads.
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

void Rollout::tell(const Machine& machine, const std::string& step, bool final) const {
  if (options_.on_step) options_.on_step(machine.report.host, step, final);
}

void Rollout::settle(Machine& machine, const std::string& result, const std::string& detail) {
  machine.report.result = result;
  machine.report.detail = detail;
  machine.done = true;
  tell(machine, result, true);
}

void Rollout::give_up(Machine& machine, const Failure& why) {
  settle(machine,
         why.code == ErrorCode::unavailable         ? "unreachable"
         : why.code == ErrorCode::permission_denied ? "refused"
                                                    : "failed",
         why.text);
}

void Rollout::leave_head_out() {
  if (options_.head_away && !machines_.front().done)
    give_up(machines_.front(), *options_.head_away);
}

void Rollout::probe(const std::string& hash) {
  leave_head_out();
  const auto timeout = inventory_.connect_timeout + short_timeout;
  for_each(
      [&](Machine& machine) {
        tell(machine, "is looked at");
        const auto said = machine.remote.act(
            "probe", {{"hash", hash}, {"mark", mark_of(machine)}, {"host", machine.report.host}},
            "", timeout);
        if (!said) return give_up(machine, said.error());
        std::istringstream lines(*said);
        for (std::string line; std::getline(lines, line);) {
          if (line == "program=yes") machine.has_program = true;
          if (line == "runs=true" || line == "runs=false") machine.runs = true;
          if (line == "head=yes") machine.head_lives = true;
          if (line == "agent=yes") machine.agent_lives = true;
          if (line.starts_with("at=")) machine.head_at = line.substr(3);
          if (line.starts_with("joined=")) machine.joined = line.substr(7);
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

// Checks the flags with the program there, before a running process is stopped for them.
void Rollout::check(const std::string& hash, const std::function<bool(const Machine&)>& which) {
  for_each(
      [&](Machine& machine) {
        const auto flags = words_of(flags_of(machine, "HEAD:1"));
        const auto said = machine.remote.act(
            "check", {{"hash", hash}, {"mark", mark_of(machine)}, {"flags", flags}}, "",
            inventory_.connect_timeout + short_timeout);
        if (!said) give_up(machine, said.error());
      },
      which, max_at_once);
}

std::vector<std::string> Rollout::flags_of(const Machine& machine,
                                           const std::string& address) const {
  auto flags = machine.flags;
  if (machine.report.head) {
    // The file states all flags, so none are reused from the previous start.
    flags.insert(flags.begin(),
                 {"--head", "--as-given", "--made-by", "mobula up " + quoted(inventory_.file)});
  } else {
    flags.insert(flags.begin(), {"--address", address});
  }
  return flags;
}

bool Rollout::Machine::has_agent() const {
  return std::ranges::find(flags, "--no-worker") == flags.end();
}

std::string Rollout::ailment_of(const Machine& machine, const std::string& address) {
  if (!machine.runs) return "nothing runs there";
  if (machine.report.head && !machine.head_lives) return "its head is dead";
  if (machine.has_agent() && !machine.agent_lives) return "its agent is dead";
  if (machine.report.head || machine.joined == address) return {};
  if (address.empty()) return "where the head will be is not known yet";
  return fmt::format("it has joined the head at {}, and that is at {}", machine.joined, address);
}

std::string Rollout::stale_by(const Machine& machine, const std::string& address) {
  if (machine.runs && machine.deployed != machine.settings)
    return "it runs with another program or settings";
  return ailment_of(machine, address);
}

// The present address of the head, or the address after a start with these settings; empty if a
// free port decides.
std::string Rollout::expected_address() const {
  const Machine& head = machines_.front();
  if (stale_by(head, {}).empty()) return head.head_at;
  std::string name;
  std::string port;
  for (const auto& flag : head.flags) {
    if (flag.starts_with("--advertise=")) name = flag.substr(12);
    if (flag.starts_with("--port=")) port = flag.substr(7);
  }
  const auto colon = head.head_at.rfind(':');
  if (port.empty() && colon != std::string::npos) port = head.head_at.substr(colon + 1);
  return name.empty() || port.empty() ? "" : name + ":" + port;
}

void Rollout::say_what_would_be_done() {
  const std::string address = expected_address();
  for (auto& each : machines_) {
    if (each.done) continue;
    const auto good =
        options_.check_flags ? options_.check_flags(flags_of(each, "HEAD:1")) : Result<void>();
    if (!good) {
      settle(each, "failed", good.error().text);
      continue;
    }
    const std::string why = stale_by(each, address);
    if (why.empty()) {
      settle(each, "unchanged");
    } else if (each.runs) {
      settle(each, "would replace", why);
    } else {
      settle(each, "would start", each.has_program ? "" : "after copying the program");
    }
  }
}

// Mark of one host in one run; empty while nothing may be written there.
std::string Rollout::mark_of(const Machine& machine) const {
  return run_.empty() ? "" : fmt::format("{}.{}", run_, &machine - machines_.data());
}

std::vector<HostReport> Rollout::bring_up(const Bundle& bundle) {
  if (!options_.dry_run) run_ = hex_of(random_bits()).substr(0, 16);
  for (auto& each : machines_) {
    // Hash of the start parameters, so that a change is detected.
    each.settings = fmt::format("{:016x}", fnv1a(bundle.hash() + words_of(each.flags)));
  }
  probe(bundle.hash());
  if (options_.dry_run) {
    say_what_would_be_done();
    return reports();
  }
  Machine& head = machines_.front();
  if (!head.done && stale_by(head, {}).empty()) {
    address_ = head.head_at;
    settle(head, "unchanged");
  }
  const std::string address = expected_address();
  const auto is_stale = [&](const Machine& each) { return !stale_by(each, address).empty(); };
  const auto lacks_it = [&](const Machine& each) { return !each.has_program && is_stale(each); };
  if (std::ranges::any_of(machines_,
                          [&](const Machine& each) { return !each.done && lacks_it(each); })) {
    const auto archive = bundle.archive();
    for_each(
        [&](Machine& machine) {
          if (!archive) return give_up(machine, archive.error());
          tell(machine, fmt::format("gets the program, {:.1f} MiB",
                                    static_cast<double>(archive->size()) / 0x1p20));
          const auto said =
              machine.remote.act("receive", {{"hash", bundle.hash()}}, *archive, copy_timeout);
          if (!said) give_up(machine, said.error());
        },
        lacks_it, max_at_once);
  }
  check(bundle.hash(), is_stale);
  for_each([&](Machine& machine) { start(machine, bundle.hash()); },
           [](const Machine& each) { return each.report.head; }, 1);
  bring_up_nodes(bundle.hash());
  return reports();
}

void Rollout::bring_up_nodes(const std::string& hash) {
  const auto settle_current = [&] {
    for (auto& each : machines_) {
      if (!each.done && !address_.empty() && stale_by(each, address_).empty())
        settle(each, "unchanged");
    }
  };
  settle_current();
  const bool all_done =
      std::ranges::all_of(machines_, [](const Machine& each) { return each.done; });
  if (!all_done) learn_of_head();
  settle_current();
  for (auto& each : machines_) {
    if (each.done || !address_.empty()) continue;
    const std::string& head = machines_.front().report.host;
    if (stale_by(each, each.joined).empty()) {
      settle(each, "skipped",
             fmt::format("it runs and has joined {}; whether that is this cluster's head, {} could "
                         "not be asked",
                         each.joined, head));
    } else {
      settle(each, "skipped", "there is no head to join: " + head);
    }
  }
  const auto step = [&](Machine& machine) { start(machine, hash); };
  for_each(
      step, [](const Machine& each) { return !each.runs; }, max_at_once);
  for_each(
      step, [](const Machine& each) { return each.runs; }, options_.at_once);
}

// Covers a head that was started now or earlier.
void Rollout::learn_of_head() {
  Machine& head = machines_.front();
  if (head.report.result != "started" && head.report.result != "replaced" &&
      head.report.result != "unchanged")
    return;
  address_.clear();
  const auto facts = head.remote.act("facts", {}, "", inventory_.connect_timeout + short_timeout);
  if (!facts) return give_up(head, facts.error());
  const auto end = std::min(facts->find('\n'), facts->size());
  const auto json = Json::parse(facts->substr(0, end), nullptr, false);
  if (!json.is_object() || !json.contains("address") || !json["address"].is_string()) {
    return settle(head, "failed", "the head's file there has no address");
  }
  address_ = json["address"].get<std::string>();
  key_ = end < facts->size() ? facts->substr(end + 1) : "";
}

void Rollout::start(Machine& machine, const std::string& hash) {
  const bool was_running = machine.runs;
  if (was_running) {
    tell(machine, "finishes its calls");
    const auto ended = machine.remote.act(
        "end", {}, "", inventory_.grace + short_timeout + inventory_.connect_timeout);
    if (!ended) return give_up(machine, ended.error());
  }
  const auto flags = flags_of(machine, address_);
  tell(machine, "starts");
  const auto said =
      machine.remote.act("start",
                         {{"hash", hash},
                          {"flags", words_of(flags)},
                          {"settings", machine.settings},
                          {"deadline", std::to_string(options_.start_timeout_ / 1s)},
                          {"keyed", machine.report.head ? "no" : "yes"}},
                         machine.report.head ? "" : key_, options_.start_timeout_ + start_margin);
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
  leave_head_out();
  const auto timeout = inventory_.grace + inventory_.connect_timeout + short_timeout;
  const auto step = [&](Machine& machine) {
    tell(machine, "stops");
    const auto said = machine.remote.act("stop", {}, "", timeout);
    if (!said) return give_up(machine, said.error());
    settle(machine, said->starts_with("nothing") ? "down" : "stopped");
  };
  for_each(
      step, [](const Machine& each) { return !each.report.head; }, max_at_once);
  for_each(
      step, [](const Machine&) { return true; }, 1);
  return reports();
}

std::vector<HostReport> Rollout::report() {
  probe("");
  const std::string address = machines_.front().head_at;
  for (auto& each : machines_) {
    if (each.done) continue;
    if (!each.runs) {
      settle(each, "down");
      continue;
    }
    // Without an answer of the head, its address is unknown.
    const std::string why = ailment_of(each, address.empty() ? each.joined : address);
    settle(each, why.empty() ? "runs" : "broken", why);
  }
  return reports();
}

std::vector<HostReport> Rollout::reports() {
  std::vector<HostReport> all;
  for (auto& each : machines_) all.push_back(each.report);
  return all;
}

}  // namespace mobula::internal::deploy
