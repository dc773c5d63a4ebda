// Wire format of the transports with shared memory (host or device): endpoint, offer handle, and
// the frames on the unix socket between receiver and holder. A handle has a keyed checksum. Only
// processes that may connect know the key, so forged or changed handles are rejected.
// Thread: any (values). Errors: every decoder checks its input.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/hash.h"
#include "base/result.h"
#include "transport/tensor/blob.h"
#include "transport/tensor/limits.h"
#include "transport/tensor/offer_versions.h"
#include "transport/tensor/tensor_transport.h"

namespace mobula::internal {

// Properties that decide whether two processes can share memory.
struct ShmDomain {
  Hash128 boot;  // this boot of the machine
  std::uint64_t user = 0;
  std::uint64_t pid_space = 0;   // pid namespace
  bool reads_processes = false;  // process_vm_readv works, as far as one process can test it
};

struct ShmEndpoint {
  DirectKind kind = DirectKind::shm;
  ProcessId process;
  ShmDomain domain;
  std::string socket;

  Blob encode() const;
  static Result<ShmEndpoint> decode(std::span<const std::byte> bytes,
                                    DirectKind kind = DirectKind::shm);
};

// Number of the ledger file; other files have higher numbers.
inline constexpr std::uint64_t ledger_number = 0;

// A file that a holder shares with receivers.
struct ShmFileRef {
  std::uint64_t number = 0;  // never reused by this holder
  DirectToken token;
};

struct ShmPiece {
  std::optional<ShmFileRef> file;  // nullopt: private memory of the holder
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
  OfferVersion mark;
  std::vector<ShmPiece> pieces;

  Blob encode(Hash128 key) const;
  // Does not verify the checksum, because its key arrives with the channel.
  static Result<ShmTicket> decode(std::span<const std::byte> bytes, const DirectLimits& limits,
                                  DirectKind kind = DirectKind::shm);
};
// Errors: permission_denied unless `ticket` was encoded with this key.
Result<void> check_ticket_sum(std::span<const std::byte> ticket, Hash128 key);

// Receiver to holder.
struct ShmHello {
  DirectKind kind = DirectKind::shm;
  ProcessId from;
  ProcessId to;
  std::uint64_t epoch = 0;
};
struct ShmFileRequest {
  ShmFileRef file;
};
// Holder to receiver.
struct ShmWelcome {
  Hash128 ticket_key;
  std::uint64_t proof_at = 0;  // address of `proof` in the holder, for a test read
  Hash128 proof;
};
struct ShmFile {  // has one descriptor
  std::uint64_t number = 0;
  std::uint64_t size = 0;
};
struct ShmRefusal {  // rejects a file, or the hello if `number` is empty
  std::optional<std::uint64_t> number;
  Failure why;
};
struct ShmForget {
  std::uint64_t number = 0;
};
using ShmMessage =
    std::variant<ShmHello, ShmFileRequest, ShmWelcome, ShmFile, ShmRefusal, ShmForget>;

inline constexpr std::size_t shm_message_bytes = 8u << 10;

Blob encode(const ShmMessage& message);
Result<ShmMessage> decode_shm_message(std::span<const std::byte> bytes,
                                      DirectKind kind = DirectKind::shm);

}  // namespace mobula::internal
