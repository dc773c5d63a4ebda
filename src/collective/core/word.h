// What one member of a collective group says to another, as it travels: short frames beside the bytes. Values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "collective/core/operation.h"

namespace mobula::internal::collective {

// Values travel: append only.
enum class WordKind : std::uint8_t {
  meeting = 1,  // here I am, for operation `number` of the group; small operands come along
  broken = 2,   // the group can do nothing more: because of `ranks`
  offer = 3,    // of send(): an operand is here for you
  accept = 4,   // of receive(): let it come
  begin = 5,    // of the first rank: what a communicator begins with comes along
  turn = 6,     // I have the turn of my device: take yours
  opened = 7,   // my part of a communicator is open, or `text` says why it never will be
  came = 8,     // my part of what goes by the communicator has been done
  let_go = 9,   // I use my part of the communicator no more; `text` says why. Once
};

struct Word {
  WordKind kind = WordKind::meeting;
  std::uint64_t number = 0;
  Operation operation = {};               // meeting, offer
  std::vector<std::byte> operand = {};    // meeting, begin
  std::vector<std::uint32_t> ranks = {};  // broken
  std::string text = {};                  // broken, opened, let_go
  friend bool operator==(const Word&, const Word&) = default;
};

inline constexpr std::size_t max_word_bytes = 16 * 1024;  // of its written form
inline constexpr std::size_t max_text_bytes = 2048;       // what is longer is cut

std::vector<std::byte> encode(const Word& word);
// corrupt for what no member of this version says.
Result<Word> decode_word(std::span<const std::byte> bytes);

}  // namespace mobula::internal::collective
