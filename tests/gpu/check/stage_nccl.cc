// Stages that call NCCL with several ranks of one GPU, each of which believes to be on a host of its own; and the
// probe.
#include <fmt/format.h>

#include <cstdio>
#include <csignal>
#include <filesystem>

#include "gpu/check/peers.h"

namespace mobula::internal::gpu_check {
namespace {

// So many ranks, joined; none, with the reason among the findings, if that does not come to be.
std::vector<Peer> joined(Findings& findings, int ranks, bool same_host, std::string& why) {
  std::vector<Peer> all;
  for (int i = 0; i < ranks; ++i) {
    all.emplace_back(as_on_host(same_host ? "one" : fmt::format("host{}", i)));
    const Message opened = all.back().ask({{"do", "open"}});
    if (why = error_of(opened); !why.empty()) {
      why = "no context: " + why;
      return {};
    }
  }
  const Message id = all.front().ask({{"do", "nccl id"}});
  if (why = error_of(id); !why.empty()) {
    why = "no NCCL: " + why;
    return {};
  }
  for (int i = 0; i < ranks; ++i) all[static_cast<std::size_t>(i)].tell({{"do", "nccl join"}, {"id", id.json["id"]}, {"rank", i}, {"ranks", ranks}});
  for (auto& each : all) {
    const Message answer = each.answer(Duration(40s));
    if (why = error_of(answer); !why.empty()) return {};
    if (&each == &all.front()) findings.value(fmt::format("{} ranks: joined after", ranks), answer.json["seconds"], "s");
  }
  return all;
}

// Each sends to the next one and receives from the one before.
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
  findings.scope("NCCL itself, two and three ranks on one GPU: no figure here says anything about its speed");
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
    const Message answer = ranks[0].ask({{"do", "nccl ring"}, {"bytes", 1u << 20}}, {}, Duration(60s));
    findings.holds("with the other rank killed a transfer ends, with a typed failure", !error_of(answer).empty(), error_of(answer));
  }
  {
    auto ranks = joined(findings, 2, false, why);
    if (ranks.empty()) return findings.cannot(why);
    ranks[1].signal(SIGSTOP);
    ranks[0].tell({{"do", "nccl ring"}, {"bytes", 1u << 20}});
    const Message early = ranks[0].answer(Duration(findings.brief() ? 500ms : 15s));
    findings.value("with the other rank stopped", early.json.contains("wrong_bytes") ? "it came all the same" : "nothing has come");
    ranks[1].tell({{"do", "nccl ring"}, {"bytes", 1u << 20}});
    ranks[1].signal(SIGCONT);
    const Message late = ranks[0].answer(Duration(40s));
    findings.value("and once it goes on", error_of(late).empty() ? "the bytes came" : error_of(late));
  }
  {
    auto ranks = joined(findings, 2, false, why);
    if (ranks.empty()) return findings.cannot(why);
    constexpr std::uint64_t ticks = 4'000'000'000;  // some two seconds
    const Message spins = ranks[1].ask({{"do", "spin"}, {"ticks", ticks}});
    if (const auto error = error_of(spins); !error.empty()) {
      findings.value("a transfer beside a user's kernel that spins", "not measured: " + error);
    } else {
      ring(findings, ranks, 1u << 20);
      findings.value("a transfer beside a user's kernel that spins", "it came");
    }
  }
  auto refused = joined(findings, 2, true, why);
  findings.holds("two ranks of one GPU on one host are refused, with a reason", refused.empty() && !why.empty(), why);
}

// Each line as it is: what a simulation is compared with.
void ask_probe(Findings& findings) {
  const auto program = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "gpu_probe_program";
  FILE* const out = ::popen(("'" + program.string() + "' 2>&1").c_str(), "r");
  if (out == nullptr) return findings.cannot("the probe does not start");
  int calls = 0, others = 0;
  char* line = nullptr;
  std::size_t room = 0;
  while (::getline(&line, &room, out) > 0) {
    const auto json = Json::parse(line, nullptr, false);
    if (!json.is_object()) continue;
    if (json.contains("call")) {
      ++calls;
      others += json.value("same", false) ? 0 : 1;
    }
    findings.value("probe", json);
  }
  std::free(line);
  const int status = ::pclose(out);
  if (calls == 0) return findings.cannot("the probe has found no driver");
  findings.value("calls", calls);
  // That an answer is another one than is counted on is what the probe is there to find.
  findings.value("answers that are not those counted on", others);
  findings.holds("the probe came to its end", WIFEXITED(status));
}

}  // namespace mobula::internal::gpu_check
