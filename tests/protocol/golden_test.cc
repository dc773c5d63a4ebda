// The bytes of every message, as earlier versions wrote them: tests/golden/<choice>.hex, one line
// per alternative. To rewrite the files after a message was appended (never reordered):
//
//     MOBULA_WRITE_GOLDEN=1 ctest -R protocol_test.Golden
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "protocol/all_messages.h"

namespace mobula::internal::test {
namespace {

using Lines = std::map<std::string, std::string>;  // name -> hex digits

std::string path_of(const std::string& choice) {
  return MOBULA_SOURCE_DIR "/tests/golden/" + choice + ".hex";
}

bool writing() { return std::getenv("MOBULA_WRITE_GOLDEN") != nullptr; }

std::string hex(const Bytes& bytes) {
  constexpr const char* digits = "0123456789abcdef";
  std::string text;
  for (const std::byte each : bytes) {
    text += digits[static_cast<unsigned>(each) >> 4];
    text += digits[static_cast<unsigned>(each) & 15];
  }
  return text;
}

Lines read_lines(const std::string& choice) {
  std::ifstream file(path_of(choice));
  Lines lines;
  std::string line;
  while (std::getline(file, line)) {
    const auto space = line.find(' ');
    if (space != std::string::npos) lines[line.substr(0, space)] = line.substr(space + 1);
  }
  return lines;
}

void write_lines(const std::string& choice, const Lines& lines) {
  std::ofstream file(path_of(choice));
  for (const auto& [name, digits] : lines) file << name << ' ' << digits << '\n';
  ASSERT_TRUE(file.good()) << path_of(choice);
}

void check(const std::string& choice, const Lines& now) {
  if (writing()) return write_lines(choice, now);
  const Lines golden = read_lines(choice);
  for (const auto& [name, digits] : now) {
    const auto at = golden.find(name);
    ASSERT_NE(at, golden.end()) << path_of(choice) << " has no line for " << name;
    EXPECT_EQ(at->second, digits) << name << " of " << choice
                                  << " is written otherwise than before: older peers misread it";
  }
  EXPECT_EQ(golden.size(), now.size()) << path_of(choice) << " has a line of no message";
}

// "03:SlotCpuReleased": the number is the wire number.
std::string numbered(std::size_t index, const std::string& name) {
  return (index < 10 ? "0" : "") + std::to_string(index) + ":" + name;
}

template <class Choice>
void check_choice(const std::string& choice) {
  Lines lines;
  for_each_alternative<Choice>(
      [&]<std::size_t Index, class T>(std::in_place_index_t<Index> tag, T alternative) {
        lines[numbered(Index, type_name<T>())] = hex(encode(Choice(tag, std::move(alternative))));
      });
  check(choice, lines);
}

TEST(Golden, EncodesVariantsAsBefore) {
  check_choice<ProcessToHead>("ProcessToHead");
  check_choice<HeadToProcess>("HeadToProcess");
  check_choice<AgentMessage>("AgentMessage");
  check_choice<AgentToHead>("AgentToHead");
  check_choice<HeadMessage>("HeadMessage");
  check_choice<HeadToAgent>("HeadToAgent");
  check_choice<ProcessToAgent>("ProcessToAgent");
  check_choice<AgentToProcess>("AgentToProcess");
  check_choice<PeerMessage>("PeerMessage");
  check_choice<CallerMessage>("CallerMessage");
  check_choice<ExecutorMessage>("ExecutorMessage");
  check_choice<Strategy>("Strategy");
  check_choice<RegionMessage>("RegionMessage");
  check_choice<RegionLinkMessage>("RegionLinkMessage");
}

TEST(Golden, EncodesStructsAsBefore) {
  Lines lines;
  lines["CallerFrame"] = hex(encode(filled<CallerFrame>()));
  lines["ExecutorFrame"] = hex(encode(filled<ExecutorFrame>()));
  lines["PeerFrame"] = hex(encode(filled<PeerFrame>()));
  lines["PeerHello"] = hex(encode(filled<PeerHello>()));
  lines["CallerRejected"] = hex(encode(filled<CallerRejected>()));
  lines["ToolRequest"] = hex(encode(filled<ToolRequest>()));
  lines["ToolReply"] = hex(encode(filled<ToolReply>()));
  lines["Ticket"] = hex(encode(filled<Ticket>()));
  lines["SignedTicket"] = hex(encode(filled<SignedTicket>()));
  check("singles", lines);
}

}  // namespace
}  // namespace mobula::internal::test
