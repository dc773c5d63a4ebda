#include <chrono>

#include "e2e/driver/driver.h"

namespace mobula::e2e {
namespace {

using std::chrono::seconds;
using MebiBlock = std::vector<std::uint64_t>;

constexpr std::size_t words_per_mib = (std::size_t{1} << 20) / sizeof(std::uint64_t);

// One MiB of content unique to the number.
MebiBlock mebi_block(std::uint64_t number) {
  MebiBlock block(words_per_mib);
  for (std::size_t i = 0; i < block.size(); ++i) block[i] = number * 1'000'003 + i;
  return block;
}

bool is_mebi_block(const MebiBlock& block, std::uint64_t number) {
  return block == mebi_block(number);
}

int checks(const MebiBlock& block, std::uint64_t number) {
  return is_mebi_block(block, number) ? 1 : 0;
}

std::vector<mobula::ObjectRef<MebiBlock>> put_mebi_blocks(std::uint64_t count) {
  std::vector<mobula::ObjectRef<MebiBlock>> refs;
  for (std::uint64_t i = 0; i < count; ++i) refs.push_back(mobula::put(mebi_block(i)));
  return refs;
}

// hoards COUNT: puts COUNT MiB, prints "ready", and reads every value twice. Tasks read some of the
// values.
int hoards(const Words& words) {
  Report report;
  const std::uint64_t count = std::stoull(words.at(0));
  const auto refs = put_mebi_blocks(count);
  tell("ready");
  hear();
  for (int round = 0; round < 2; ++round) {
    for (std::uint64_t i = 0; i < count; ++i) {
      report.holds("a value that was put", is_mebi_block(mobula::get(refs[i], seconds(60)), i));
    }
  }
  for (std::uint64_t i = 0; i < count; i += 7) {
    report.equal("read by a task",
                 mobula::get(mobula::task<checks>.remote(refs[i], i), seconds(60)), 1);
  }
  return report.exit_code();
}

// makes COUNT: tasks make COUNT MiB. Tasks and the driver read them.
int makes(const Words& words) {
  Report report;
  const std::uint64_t count = std::stoull(words.at(0));
  std::vector<mobula::ObjectRef<MebiBlock>> made;
  for (std::uint64_t i = 0; i < count; ++i) made.push_back(mobula::task<mebi_block>.remote(i));
  std::vector<mobula::ObjectRef<int>> checked;
  for (std::uint64_t i = 0; i < count; ++i) {
    checked.push_back(mobula::task<checks>.remote(made[i], i));
  }
  int sound = 0;
  for (const auto& each : checked) sound += mobula::get(each, seconds(60));
  report.equal("read by tasks", sound, static_cast<int>(count));
  for (std::uint64_t i = 0; i < count; ++i) {
    report.holds("a result", is_mebi_block(mobula::get(made[i], seconds(60)), i));
  }
  return report.exit_code();
}

// views COUNT: maps the first value while other values push it out of memory.
int views(const Words& words) {
  Report report;
  const auto first = mobula::put(mebi_block(0));
  const auto view = mobula::get_view(first, seconds(60));
  const auto refs = put_mebi_blocks(std::stoull(words.at(0)));
  const MebiBlock expected = mebi_block(0);
  report.holds("a viewed object is pinned",
               std::equal(view.begin(), view.end(), expected.begin(), expected.end()));
  report.holds("the last value",
               is_mebi_block(mobula::get(refs.back(), seconds(60)), refs.size() - 1));
  return report.exit_code();
}

// loses COUNT: makes COUNT results and puts COUNT values. The test damages files while it waits.
// The affected results are recomputed, and the affected values are reported as lost.
int loses(const Words& words) {
  Report report;
  const std::uint64_t count = std::stoull(words.at(0));
  std::vector<mobula::ObjectRef<MebiBlock>> made;
  for (std::uint64_t i = 0; i < count; ++i) made.push_back(mobula::task<mebi_block>.remote(i));
  for (const auto& each : made) mobula::get(each, seconds(60));
  const auto refs = put_mebi_blocks(count);
  tell("ready");
  hear();
  for (std::uint64_t i = 0; i < count; ++i) {
    report.holds("a result, made again or not",
                 is_mebi_block(mobula::get(made[i], seconds(60)), i));
  }
  int lost = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    try {
      report.holds("a value that was put", is_mebi_block(mobula::get(refs[i], seconds(60)), i));
    } catch (const mobula::ObjectLostError& error) {
      ++lost;
      const std::string text = error.what();
      report.holds(text.c_str(), text.find("are lost") != std::string::npos);
    }
  }
  tell("lost " + std::to_string(lost));
  return report.exit_code();
}

// overfills: puts until the store rejects a value, and prints the reason. Earlier values stay
// readable.
int overfills(const Words&) {
  Report report;
  std::vector<mobula::ObjectRef<MebiBlock>> refs;
  try {
    for (std::uint64_t i = 0; i < 200; ++i) refs.push_back(mobula::put(mebi_block(i)));
    report.fail("the store took everything");
  } catch (const mobula::ObjectStoreFullError& error) {
    tell(std::string("refused: ") + error.what());
  }
  tell("kept " + std::to_string(refs.size()));
  for (std::uint64_t i = 0; i < refs.size(); ++i) {
    report.holds("a value that was put before",
                 is_mebi_block(mobula::get(refs[i], seconds(60)), i));
  }
  return report.exit_code();
}

}  // namespace

std::map<std::string, Scenario> spilling_scenarios() {
  return {{"hoards", hoards},
          {"makes", makes},
          {"views", views},
          {"loses", loses},
          {"overfills", overfills}};
}

}  // namespace mobula::e2e
