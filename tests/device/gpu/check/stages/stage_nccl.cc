// Stages that call NCCL with several ranks of one GPU.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <map>

#include "device/gpu/check/peers.h"
#include "device/gpu/nccl_library.h"

namespace mobula::internal::gpu_check {
namespace {

// `ranks` joined ranks, or none and the reason in `why`. `variables` are set on top of those of the
// host.
std::vector<Peer> joined(Findings& findings, int ranks, bool same_host, std::string& why,
                         const std::map<std::string, std::string>& variables = {}) {
  std::vector<Peer> all;
  for (int i = 0; i < ranks; ++i) {
    auto environment = as_on_host(same_host ? "one" : fmt::format("host{}", i));
    environment.insert(variables.begin(), variables.end());
    all.emplace_back(environment);
    const Message opened = all.back().execute({{"do", "open"}});
    if (why = error_of(opened); !why.empty()) {
      why = "no context: " + why;
      return {};
    }
  }
  const Message id = all.front().execute({{"do", "nccl id"}});
  if (why = error_of(id); !why.empty()) {
    why = "no NCCL: " + why;
    return {};
  }
  for (int i = 0; i < ranks; ++i)
    all[static_cast<std::size_t>(i)].tell(
        {{"do", "nccl join"}, {"id", id.json["id"]}, {"rank", i}, {"ranks", ranks}});
  for (auto& each : all) {
    const Message answer = each.answer(Duration(40s));
    if (why = error_of(answer); !why.empty()) return {};
    if (&each == &all.front())
      findings.value(fmt::format("{} ranks: joined after", ranks), answer.json["seconds"], "s");
  }
  return all;
}

// Each rank sends to the next one and receives from the previous one.
void ring(Findings& findings, std::vector<Peer>& ranks, std::uint64_t bytes) {
  const std::string name = fmt::format("{} ranks, {} bytes round the ring", ranks.size(), bytes);
  for (auto& each : ranks) each.tell({{"do", "nccl ring"}, {"bytes", bytes}});
  bool right = true;
  std::string seen;
  double longest = 0;
  for (auto& each : ranks) {
    const Message answer = each.answer(Duration(60s));
    right = right && error_of(answer).empty() && answer.json.value("wrong_bytes", 1) == 0;
    if (!error_of(answer).empty()) seen = error_of(answer);
    longest = std::max(longest, answer.json.value("seconds", 0.0));
  }
  findings.holds(name, right, seen);
}

}  // namespace

void nccl_between_hosts(Findings& findings) {
  findings.scope(
      "NCCL itself, two and three ranks on one GPU: no figure here says anything about its speed");
  for (const int count : {2, 3}) {
    std::string why;
    auto ranks = joined(findings, count, false, why);
    if (ranks.empty()) {
      if (why.starts_with("no context") || why.starts_with("no NCCL")) return findings.cannot(why);
      findings.holds(fmt::format("{} ranks of one GPU join", count), false, why);
      continue;
    }
    findings.holds(fmt::format("{} ranks of one GPU join", count), true);
    std::vector<std::uint64_t> sizes{0, 1, 65'535, 65'537, 2u << 20};
    if (!findings.brief()) sizes.insert(sizes.end(), {64ull << 20, 256ull << 20});
    for (const auto size : sizes) ring(findings, ranks, size);
  }
}

void nccl_faults(Findings& findings) {
  std::string why;
  {
    auto ranks = joined(findings, 2, false, why);
    if (ranks.empty()) return findings.cannot(why);
    ranks[1].kill();
    const Message answer = ranks[0].execute(
        {{"do", "nccl ring"}, {"bytes", 1u << 20}, {"limit_s", findings.brief() ? 2 : 20}}, {},
        Duration(45s));
    const Message alive = ranks[0].execute({{"do", "memory"}}, {}, Duration(10s));
    findings.holds(
        "with the other rank killed, a transfer ends with a failure and its process continues",
        !error_of(answer).empty() && error_of(alive).empty(),
        error_of(answer) + (error_of(alive).empty() ? "" : "; after that: " + error_of(alive)));
  }
  {
    auto ranks = joined(findings, 2, false, why);
    if (ranks.empty()) return findings.cannot(why);
    ranks[1].signal(SIGSTOP);
    ranks[0].tell({{"do", "nccl ring"}, {"bytes", 1u << 20}});
    const Message early = ranks[0].answer(Duration(findings.brief() ? 500ms : 15s));
    findings.value("with the other rank stopped", early.json.contains("wrong_bytes")
                                                      ? "it came all the same"
                                                      : "no bytes arrived");
    ranks[1].tell({{"do", "nccl ring"}, {"bytes", 1u << 20}});
    ranks[1].signal(SIGCONT);
    const Message late = ranks[0].answer(Duration(40s));
    findings.value("after the other rank continues",
                   error_of(late).empty() ? "the bytes came" : error_of(late));
  }
  {
    auto ranks = joined(findings, 2, false, why);
    if (ranks.empty()) return findings.cannot(why);
    constexpr std::uint64_t ticks = 4'000'000'000;  // about two seconds
    const Message spins = ranks[1].execute({{"do", "spin"}, {"ticks", ticks}});
    if (const auto error = error_of(spins); !error.empty()) {
      findings.value("a transfer while a user's kernel spins", "not measured: " + error);
    } else {
      ring(findings, ranks, 1u << 20);
      findings.value("a transfer while a user's kernel spins", "it came");
    }
  }
  auto refused = joined(findings, 2, true, why);
  findings.holds("two ranks of one GPU on one host are refused, with a reason",
                 refused.empty() && !why.empty(), why);
}

void nccl_on_one_host(Findings& findings) {
  findings.scope("NCCL itself: no figure here says anything about its speed");
  constexpr int first_with_switch = 23'000;
  const auto library = NcclLibrary::open();
  if (!library) return findings.cannot("no NCCL: " + library.error().text);
  const std::string version = nccl_version_text((*library)->version());
  if ((*library)->version() < first_with_switch)
    return findings.cannot("NCCL " + version + " has no switch for it; 2.30 or newer has");
  std::string why;
  auto ranks = joined(findings, 2, true, why, {{"NCCL_MULTI_RANK_GPU_ENABLE", "1"}});
  if (why.starts_with("no context") || why.starts_with("no NCCL")) return findings.cannot(why);
  findings.holds("two ranks of one GPU on one host join", !ranks.empty(), why);
  if (ranks.empty()) return;
  for (const std::uint64_t size : {std::uint64_t{1}, std::uint64_t{65'537}, std::uint64_t{2} << 20})
    ring(findings, ranks, size);
}

}  // namespace mobula::internal::gpu_check
