#include "tensor/collective/core/control_message.h"

#include <optional>
#include <string_view>

namespace mobula::internal::collective {
namespace {

void put_number(std::vector<std::byte>& to, std::uint64_t number, unsigned bytes = 8) {
  for (unsigned i = 0; i < bytes; ++i) to.push_back(static_cast<std::byte>(number >> (8 * i)));
}

void put_text(std::vector<std::byte>& to, std::string_view text) {
  for (const char each : text.substr(0, max_text_bytes)) to.push_back(static_cast<std::byte>(each));
}

std::optional<std::uint64_t> take_number(std::span<const std::byte>& from, unsigned bytes = 8) {
  if (from.size() < bytes) return std::nullopt;
  std::uint64_t number = 0;
  for (unsigned i = 0; i < bytes; ++i) number |= static_cast<std::uint64_t>(from[i]) << (8 * i);
  from = from.subspan(bytes);
  return number;
}

bool has_text_alone(ControlKind kind) {
  return kind == ControlKind::opened || kind == ControlKind::let_go;
}
bool has_operation(ControlKind kind) {
  return kind == ControlKind::handshake || kind == ControlKind::offer;
}

}  // namespace

std::vector<std::byte> encode(const ControlMessage& message) {
  std::vector<std::byte> bytes;
  put_number(bytes, static_cast<std::uint64_t>(message.kind), 1);
  put_number(bytes, message.number);
  if (has_operation(message.kind)) {
    const auto operation = encode(message.operation);
    put_number(bytes, operation.size(), 2);
    bytes.insert(bytes.end(), operation.begin(), operation.end());
    bytes.insert(bytes.end(), message.operand.begin(), message.operand.end());
  } else if (message.kind == ControlKind::begin) {
    bytes.insert(bytes.end(), message.operand.begin(), message.operand.end());
  } else if (message.kind == ControlKind::broken) {
    put_number(bytes, message.ranks.size(), 2);
    for (const auto rank : message.ranks) put_number(bytes, rank, 2);
    put_text(bytes, message.text);
  } else if (has_text_alone(message.kind)) {
    put_text(bytes, message.text);
  }
  return bytes;
}

Result<ControlMessage> decode_message(std::span<const std::byte> bytes) {
  const Failure nonsense = failure(ErrorCode::corrupt, "the control message is invalid");
  if (bytes.size() > max_word_bytes) return nonsense;
  const auto kind = take_number(bytes, 1);
  const auto number = take_number(bytes);
  if (!kind || !number || *kind < 1 || *kind > 9) return nonsense;
  ControlMessage message;
  message.kind = static_cast<ControlKind>(*kind);
  message.number = *number;
  if (has_operation(message.kind)) {
    const auto length = take_number(bytes, 2);
    if (!length || *length > bytes.size()) return nonsense;
    auto operation = decode_operation(bytes.first(*length));
    if (!operation) return operation.error();
    message.operation = std::move(*operation);
    bytes = bytes.subspan(*length);
    message.operand.assign(bytes.begin(), bytes.end());
    bytes = {};
  } else if (message.kind == ControlKind::begin) {
    message.operand.assign(bytes.begin(), bytes.end());
    bytes = {};
  } else if (message.kind == ControlKind::broken) {
    const auto count = take_number(bytes, 2);
    if (!count || *count > max_members) return nonsense;
    for (std::uint64_t i = 0; i < *count; ++i) {
      const auto rank = take_number(bytes, 2);
      if (!rank || *rank >= max_members) return nonsense;
      message.ranks.push_back(static_cast<std::uint32_t>(*rank));
    }
  }
  if (message.kind == ControlKind::broken || has_text_alone(message.kind)) {
    if (bytes.size() > max_text_bytes) return nonsense;
    message.text.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return message;
}

}  // namespace mobula::internal::collective
