// Input from unauthenticated peers: tickets, frame headers of local and bulk links, and packets of
// the fork server. The first byte selects.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "protocol/messages/fork_server_wire.h"
#include "protocol/tickets/ticket.h"
#include "transport/bulk/bulk_wire.h"
#include "transport/local/local_frame.h"

namespace mobula::internal {
namespace {

// The first bytes of the input, padded with zeros.
template <std::size_t size>
std::array<std::byte, size> head_of(std::string_view text) {
  std::array<std::byte, size> bytes{};
  std::memcpy(bytes.data(), text.data(), std::min(size, text.size()));
  return bytes;
}

template <class Packet>
void must_return(const std::optional<Packet>& packet, std::string_view text) {
  if (packet && encode(*packet) != text) std::abort();
}

void try_wire(std::uint8_t which, std::string_view text) {
  switch (which % 7) {
    case 0:
      // No existing key has signed this ticket.
      if (check_ticket(std::string(text), std::string(32, 'k'), 0, {}).ok()) std::abort();
      break;
    case 1:
      static_cast<void>(LocalFrameHeader::read(head_of<LocalFrameHeader::size>(text)).check({}));
      break;
    case 2: static_cast<void>(BulkHello::decode(head_of<BulkHello::size>(text))); break;
    case 3: static_cast<void>(BulkWelcome::decode(head_of<BulkWelcome::size>(text))); break;
    case 4: static_cast<void>(BulkFrameHeader::decode(head_of<BulkFrameHeader::size>(text))); break;
    case 5: must_return(decode_fork_request(text), text); break;
    case 6: must_return(decode_fork_reply(text), text); break;
  }
}

}  // namespace
}  // namespace mobula::internal

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  mobula::internal::try_wire(data[0],
                             std::string_view(reinterpret_cast<const char*>(data + 1), size - 1));
  return 0;
}
