// What processes of one machine say to each other about memory they share, of hosts or devices: endpoint,
// ticket, and the frames of the unix socket between a receiver and a holder. Values; any thread. All of it is checked
// when it is read; tickets carry a keyed sum, whose key only who may connect is told, so that one
// that was changed or made up is refused.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "transport/direct/blob.h"
#include "transport/direct/limits.h"
#include "transport/direct/offer_ledger.h"
#include "transport/direct/tensor_transport.h"

namespace mobula::internal {

// What of a machine decides whether two processes share memory.
struct ShmPlace {
  Hash128 boot;  // the machine, since it was started
  std::uint64_t user = 0;
  std::uint64_t pid_space = 0;   // in which process ids mean the same
  bool reads_processes = false;  // process_vm_readv works here, as far as one process can find out
};

struct ShmEndpoint {
  DirectKind kind = DirectKind::shm;
  ProcessId process;
  ShmPlace place;
  std::string socket;

  Blob encode() const;
  static Result<ShmEndpoint> decode(std::span<const std::byte> bytes,
                                    DirectKind kind = DirectKind::shm);
};

// The ledger's; all others come after it.
inline constexpr std::uint64_t ledger_number = 0;

// A file that a holder gives to readers.
struct ShmFileRef {
  std::uint64_t number = 0;  // never used again by this holder
  DirectToken token;
};

struct ShmPiece {
  std::optional<ShmFileRef> file;  // none: the holder's own memory
  std::uint64_t at = 0;            // offset in the file, or address
  std::uint64_t size = 0;
};

struct ShmTicket {
  DirectKind kind = DirectKind::shm;
  ProcessId holder;
  ProcessId receiver;
  TransferId transfer;
  std::uint64_t epoch = 0;
  ShmFileRef ledger;
  OfferMark mark;
  std::vector<ShmPiece> pieces;

  Blob encode(Hash128 key) const;
  // Does not look at the sum, whose key comes with the channel.
  static Result<ShmTicket> decode(std::span<const std::byte> bytes, const DirectLimits& limits,
                                  DirectKind kind = DirectKind::shm);
};
// permission_denied unless `ticket` was made with this key.
Result<void> check_ticket_sum(std::span<const std::byte> ticket, Hash128 key);

// Receiver to holder.
struct ShmHello {
  DirectKind kind = DirectKind::shm;
  ProcessId from;
  ProcessId to;
  std::uint64_t epoch = 0;
};
struct ShmAsk {
  ShmFileRef file;
};
// Holder to receiver.
struct ShmWelcome {
  Hash128 ticket_key;
  std::uint64_t proof_at = 0;  // address of `proof` in the holder: to try whether it can be read
  Hash128 proof;
};
struct ShmFile {  // with its descriptor
  std::uint64_t number = 0;
  std::uint64_t size = 0;
};
struct ShmRefusal {  // of a file, or with number none of the hello
  std::optional<std::uint64_t> number;
  Failure why;
};
struct ShmForget {
  std::uint64_t number = 0;
};
using ShmMessage = std::variant<ShmHello, ShmAsk, ShmWelcome, ShmFile, ShmRefusal, ShmForget>;

inline constexpr std::size_t shm_message_bytes = 8u << 10;

Blob encode(const ShmMessage& message);
Result<ShmMessage> decode_shm_message(std::span<const std::byte> bytes,
                                      DirectKind kind = DirectKind::shm);

}  // namespace mobula::internal
