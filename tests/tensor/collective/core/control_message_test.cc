// Control messages: their bytes as earlier versions wrote them, and invalid messages.
// `tests/golden/GroupWord.hex` has one line per kind; MOBULA_WRITE_GOLDEN=1 writes the file.
#include "tensor/collective/core/control_message.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <string>

namespace mobula::internal::collective {
namespace {

std::map<std::string, ControlMessage> words() {
  const Operation operation{.kind = OperationKind::broadcast,
                            .reduce = ReduceKind::max,
                            .root = 2,
                            .open = true,
                            .dtype = DType::bfloat16,
                            .shape = {3, 5},
                            .device = "GPU-7",
                            .library = "2.28.9"};
  const std::vector<std::byte> three{std::byte{1}, std::byte{2}, std::byte{3}};
  const auto message = [&](ControlKind kind) {
    ControlMessage made;
    made.kind = kind;
    made.number = 258;
    return made;
  };
  std::map<std::string, ControlMessage> all{{"accept", message(ControlKind::accept)},
                                            {"turn", message(ControlKind::turn)},
                                            {"opened", message(ControlKind::opened)},
                                            {"came", message(ControlKind::came)}};
  for (const auto& [name, kind] :
       {std::pair("meeting", ControlKind::handshake), std::pair("offer", ControlKind::offer)}) {
    all[name] = message(kind);
    all[name].operation = operation;
    all[name].operand = three;
  }
  all["begin"] = message(ControlKind::begin);
  all["begin"].operand = three;
  all["broken"] = message(ControlKind::broken);
  all["broken"].ranks = {0, 511};
  all["broken"].text = "they have gone";
  all["not_opened"] = message(ControlKind::opened);
  all["not_opened"].text = "no library";
  all["let_go"] = message(ControlKind::let_go);
  all["let_go"].text = "ncclAllReduce failed";
  return all;
}

std::string hex(const std::vector<std::byte>& bytes) {
  std::string text;
  for (const std::byte each : bytes) {
    text += "0123456789abcdef"[static_cast<unsigned>(each) >> 4];
    text += "0123456789abcdef"[static_cast<unsigned>(each) & 15];
  }
  return text;
}

TEST(GroupWords, MatchesGoldenBytes) {
  const std::string path = MOBULA_SOURCE_DIR "/tests/golden/GroupWord.hex";
  if (std::getenv("MOBULA_WRITE_GOLDEN") != nullptr) {
    std::ofstream file(path);
    for (const auto& [name, message] : words()) file << name << ' ' << hex(encode(message)) << '\n';
  }
  std::map<std::string, std::string> golden;
  std::ifstream file(path);
  for (std::string name, digits; file >> name >> digits;) golden[name] = digits;
  ASSERT_EQ(golden.size(), words().size());
  for (const auto& [name, message] : words())
    EXPECT_EQ(golden[name], hex(encode(message))) << name << ": members of other builds misread it";
}

TEST(GroupWords, DecodesWhatItEncodes) {
  for (const auto& [name, message] : words()) {
    const auto bytes = encode(message);
    const auto read = decode_message(bytes);
    ASSERT_TRUE(read.ok()) << name;
    EXPECT_EQ(*read, message) << name;
  }
}

TEST(GroupWords, RejectsInvalidMessages) {
  const auto refused = [](std::vector<std::byte> bytes) { return !decode_message(bytes).ok(); };
  EXPECT_TRUE(refused({}));
  for (const auto& [name, message] : words()) {
    auto bytes = encode(message);
    for (std::size_t length = 0; length < 9; ++length)
      EXPECT_TRUE(refused({bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length)}));
    bytes[0] = std::byte{10};
    EXPECT_TRUE(refused(bytes)) << name;
    bytes = encode(message);
    bytes.resize(max_word_bytes + 1);
    EXPECT_TRUE(refused(bytes)) << name;
  }
  auto broken = encode(words().at("broken"));
  broken[9] = std::byte{255};  // more ranks than the message contains
  EXPECT_TRUE(refused(broken));
  ControlMessage talkative;
  talkative.kind = ControlKind::opened;
  talkative.text.assign(5000, 'x');
  EXPECT_EQ(decode_message(encode(talkative))->text.size(), max_text_bytes);
}

}  // namespace
}  // namespace mobula::internal::collective
