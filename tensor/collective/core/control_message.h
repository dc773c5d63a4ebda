// Control messages between the members of a collective group, and their wire format.
// Thread: any (plain values).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "tensor/collective/core/operation.h"

namespace mobula::internal::collective {

// The values are part of the wire format: append only.
enum class ControlKind : std::uint8_t {
  handshake = 1,  // handshake of operation `number`; carries small operands
  broken = 2,     // the sender's group is unusable because of `ranks`
  offer = 3,      // send: an operand is ready for the receiver
  accept = 4,     // receive: the receiver is ready
  begin = 5,      // from rank 0: the id that begins a communicator
  turn = 6,       // the sender has the turn of its device; the next rank may take its own
  opened = 7,     // the sender's part of the communicator is open, or failed because of `text`
  came = 8,       // the sender's part of an operation over the communicator has completed
  let_go = 9,     // the sender no longer uses the communicator because of `text`; sent once
};

struct ControlMessage {
  ControlKind kind = ControlKind::handshake;
  std::uint64_t number = 0;
  Operation operation = {};               // meeting, offer
  std::vector<std::byte> operand = {};    // meeting, begin
  std::vector<std::uint32_t> ranks = {};  // broken
  std::string text = {};                  // broken, opened, let_go
  friend bool operator==(const ControlMessage&, const ControlMessage&) = default;
};

inline constexpr std::size_t max_word_bytes = 16 * 1024;  // encoded size
inline constexpr std::size_t max_text_bytes = 2048;       // longer text is truncated

std::vector<std::byte> encode(const ControlMessage& message);
// Fails with corrupt on input that no member of this version sends.
Result<ControlMessage> decode_message(std::span<const std::byte> bytes);

}  // namespace mobula::internal::collective
