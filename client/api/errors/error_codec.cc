#include <mobula/exceptions.h>

namespace mobula::detail {

std::vector<std::byte> encode(const ErrorRecord& record) { return to_bytes(record); }

std::optional<ErrorRecord> decode_error(std::span<const std::byte> bytes) {
  try {
    return decode<ErrorRecord>(StoredValue{.bytes = bytes});
  } catch (const SerializationError&) {
    return std::nullopt;
  }
}

}  // namespace mobula::detail
