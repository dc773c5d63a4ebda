#include "transport/tensor/shm/shm_wire.h"

#include <fmt/format.h>

#include <utility>

#include "transport/local/local_listener.h"

namespace mobula::internal {
namespace {

enum class ShmType : std::uint8_t { hello = 1, request, welcome, file, refusal, forget };

constexpr std::size_t sum_bytes = 16;
constexpr std::size_t max_text = 2'048;
constexpr std::uint8_t in_file = 1;
constexpr std::uint8_t in_process = 2;

BlobWriter begin(ShmType type) {
  BlobWriter writer;
  writer.byte(static_cast<std::uint8_t>(type));
  return writer;
}

void put_ref(BlobWriter& to, const ShmFileRef& ref) { to.number(ref.number).token(ref.token); }

ShmFileRef take_ref(BlobReader& from) {
  const std::uint64_t number = from.number();
  return {number, from.token()};
}

struct Encoder {
  Blob operator()(const ShmHello& m) const {
    BlobWriter to = begin(ShmType::hello);
    put_direct_head(to, m.kind);
    return to.id(m.from).id(m.to).number(m.epoch).take();
  }
  Blob operator()(const ShmFileRequest& m) const {
    BlobWriter to = begin(ShmType::request);
    put_ref(to, m.file);
    return to.take();
  }
  Blob operator()(const ShmWelcome& m) const {
    return begin(ShmType::welcome).bits(m.ticket_key).number(m.proof_at).bits(m.proof).take();
  }
  Blob operator()(const ShmFile& m) const {
    return begin(ShmType::file).number(m.number).number(m.size).take();
  }
  Blob operator()(const ShmRefusal& m) const {
    return begin(ShmType::refusal)
        .byte(m.number ? 1 : 0)
        .number(m.number.value_or(0))
        .byte(static_cast<std::uint8_t>(m.why.code))
        .text(std::string_view(m.why.text).substr(0, max_text))
        .take();
  }
  Blob operator()(const ShmForget& m) const {
    return begin(ShmType::forget).number(m.number).take();
  }
};

Result<ShmMessage> take_hello(BlobReader& from, DirectKind kind) {
  if (auto good = take_direct_head(from, kind, "a hello"); !good) return good.error();
  ShmHello m;
  m.kind = kind;
  m.from = from.id<ProcessId>();
  m.to = from.id<ProcessId>();
  m.epoch = from.number();
  return ShmMessage(m);
}

ShmWelcome take_welcome(BlobReader& from) {
  ShmWelcome m;
  m.ticket_key = from.bits();
  m.proof_at = from.number();
  m.proof = from.bits();
  return m;
}

ShmRefusal take_refusal(BlobReader& from) {
  ShmRefusal m;
  const bool of_file = from.byte() != 0;
  const std::uint64_t number = from.number();
  if (of_file) m.number = number;
  const std::uint8_t code = from.byte();
  if (code < static_cast<std::uint8_t>(ErrorCode::not_found) ||
      code > static_cast<std::uint8_t>(ErrorCode::permission_denied)) {
    from.break_off();
  }
  m.why.code = static_cast<ErrorCode>(code);
  m.why.text = from.text(max_text);
  return m;
}

ShmFile take_file(BlobReader& from) {
  const std::uint64_t number = from.number();
  return {number, from.number()};
}

ShmPiece take_piece(BlobReader& from) {
  ShmPiece piece;
  const std::uint8_t where = from.byte();
  if (where == in_file) {
    piece.file = take_ref(from);
    if (piece.file->number == ledger_number) from.break_off();
  } else if (where != in_process) {
    from.break_off();
  }
  piece.at = from.number();
  piece.size = from.number();
  return piece;
}

}  // namespace

Blob encode(const ShmMessage& message) { return std::visit(Encoder{}, message); }

Result<ShmMessage> decode_shm_message(std::span<const std::byte> bytes, DirectKind kind) {
  BlobReader from(bytes);
  Result<ShmMessage> made(
      failure(ErrorCode::corrupt, "a frame about shared memory of no known type"));
  switch (static_cast<ShmType>(from.byte())) {
    case ShmType::hello: made = take_hello(from, kind); break;
    case ShmType::request: made = ShmMessage(ShmFileRequest{take_ref(from)}); break;
    case ShmType::welcome: made = ShmMessage(take_welcome(from)); break;
    case ShmType::file: made = ShmMessage(take_file(from)); break;
    case ShmType::refusal: made = ShmMessage(take_refusal(from)); break;
    case ShmType::forget: made = ShmMessage(ShmForget{from.number()}); break;
  }
  if (!made) return made;
  if (auto good = from.finish("a frame about shared memory"); !good) return good.error();
  return made;
}

Blob ShmEndpoint::encode() const {
  BlobWriter to;
  put_direct_head(to, kind);
  return to.id(process)
      .bits(domain.boot)
      .number(domain.user)
      .number(domain.pid_space)
      .byte(domain.reads_processes ? 1 : 0)
      .text(socket)
      .take();
}

Result<ShmEndpoint> ShmEndpoint::decode(std::span<const std::byte> bytes, DirectKind kind) {
  BlobReader from(bytes);
  if (auto good = take_direct_head(from, kind, "an endpoint"); !good) return good.error();
  ShmEndpoint made;
  made.kind = kind;
  made.process = from.id<ProcessId>();
  made.domain.boot = from.bits();
  made.domain.user = from.number();
  made.domain.pid_space = from.number();
  made.domain.reads_processes = from.byte() != 0;
  made.socket = from.text(max_socket_path);
  if (auto good = from.finish("an endpoint"); !good) return good.error();
  return made;
}

Blob ShmTicket::encode(Hash128 key) const {
  BlobWriter to;
  put_direct_head(to, kind);
  to.id(holder).id(receiver).id(transfer).number(epoch);
  put_ref(to, ledger);
  to.number(mark.slot).number(mark.generation).number(pieces.size());
  for (const ShmPiece& piece : pieces) {
    to.byte(piece.file ? in_file : in_process);
    if (piece.file) put_ref(to, *piece.file);
    to.number(piece.at).number(piece.size);
  }
  to.bits(siphash128(key, to.bytes()));
  return to.take();
}

Result<ShmTicket> ShmTicket::decode(std::span<const std::byte> bytes, const DirectLimits& limits,
                                    DirectKind kind) {
  if (bytes.size() > limits.max_ticket_bytes) {
    return failure(ErrorCode::corrupt, fmt::format("a ticket of {} bytes", bytes.size()));
  }
  BlobReader from(bytes);
  if (auto good = take_direct_head(from, kind, "a ticket"); !good) return good.error();
  ShmTicket made;
  made.kind = kind;
  made.holder = from.id<ProcessId>();
  made.receiver = from.id<ProcessId>();
  made.transfer = from.id<TransferId>();
  made.epoch = from.number();
  made.ledger = take_ref(from);
  if (made.ledger.number != ledger_number) from.break_off();
  made.mark.slot = from.number();
  made.mark.generation = from.number();
  const std::uint64_t count = from.number();
  if (count > limits.max_regions) from.break_off();
  for (std::uint64_t i = 0; i < count && !from.broken(); ++i) {
    made.pieces.push_back(take_piece(from));
  }
  (void)from.bits();  // the checksum
  if (auto good = from.finish("a ticket"); !good) return good.error();
  return made;
}

Result<void> check_ticket_sum(std::span<const std::byte> ticket, Hash128 key) {
  if (ticket.size() > sum_bytes) {
    const auto said = ticket.first(ticket.size() - sum_bytes);
    BlobReader sum(ticket.last(sum_bytes));
    if (DirectToken{siphash128(key, said)}.matches({sum.bits()})) return {};
  }
  return failure(ErrorCode::permission_denied, "a ticket that its holder has not made");
}

}  // namespace mobula::internal
