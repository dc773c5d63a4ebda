#include "protocol/tickets/ticket.h"

#include <fmt/format.h>
#include <sodium.h>

#include <cstring>

#include "protocol/codec/codec.h"

namespace mobula::internal {
namespace {

constexpr std::int64_t clock_skew_ms = 5 * 60 * 1000;
constexpr DecodeLimits ticket_limits{.max_bytes = 4096, .max_elements = 256};

std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}
std::string as_text(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
const unsigned char* as_unsigned(const std::string& text) {
  return reinterpret_cast<const unsigned char*>(text.data());
}

Failure denied(std::string why) { return failure(ErrorCode::permission_denied, std::move(why)); }

Result<Ticket> checked(const SignedTicket& signed_ticket, const std::string& key,
                       std::int64_t now_ms) {
  if (signed_ticket.signature.size() != crypto_sign_BYTES ||
      key.size() != crypto_sign_PUBLICKEYBYTES ||
      crypto_sign_verify_detached(as_unsigned(signed_ticket.signature),
                                  as_unsigned(signed_ticket.ticket), signed_ticket.ticket.size(),
                                  as_unsigned(key)) != 0) {
    return denied("ticket refused: its signature is not of this cluster");
  }
  auto ticket = decode<Ticket>(as_bytes(signed_ticket.ticket), ticket_limits);
  if (!ticket) return denied("ticket refused: " + ticket.error().text);
  if (ticket->expires_ms + clock_skew_ms < now_ms) {
    return denied(
        fmt::format("ticket refused: it expired at {} ms, this machine's clock says {} ms "
                    "(since 1970, UTC); compare the clocks of both machines",
                    ticket->expires_ms, now_ms));
  }
  return ticket;
}

Result<Ticket> in_force(Result<Ticket> ticket, const RevocationList& revoked_keys) {
  if (!ticket || !revoked_keys.contains(ticket->admitted_as)) return ticket;
  return denied(fmt::format("ticket refused: the key of '{}' ({}) was revoked or has expired",
                            ticket->principal.name, ticket->admitted_as));
}

}  // namespace

SigningKeys SigningKeys::generate() {
  MOBULA_CHECK(sodium_init() >= 0, "libsodium cannot be initialized");
  SigningKeys keys;
  keys.public_key.resize(crypto_sign_PUBLICKEYBYTES);
  keys.secret_key.resize(crypto_sign_SECRETKEYBYTES);
  crypto_sign_keypair(reinterpret_cast<unsigned char*>(keys.public_key.data()),
                      reinterpret_cast<unsigned char*>(keys.secret_key.data()));
  return keys;
}

std::string sign_ticket(const Ticket& ticket, const SigningKeys& keys, const std::string& signer) {
  SignedTicket result{.ticket = as_text(encode(ticket)), .signature = {}, .signer = signer};
  result.signature.resize(crypto_sign_BYTES);
  crypto_sign_detached(reinterpret_cast<unsigned char*>(result.signature.data()), nullptr,
                       as_unsigned(result.ticket), result.ticket.size(),
                       as_unsigned(keys.secret_key));
  return as_text(encode(result));
}

Result<Ticket> check_ticket(const std::string& signed_ticket, const std::string& head_public_key,
                            std::int64_t now_ms, const RevocationList& revoked_keys) {
  const auto outer = decode<SignedTicket>(as_bytes(signed_ticket), ticket_limits);
  if (!outer) return denied("ticket refused: " + outer.error().text);
  if (outer->signer.empty())
    return in_force(checked(*outer, head_public_key, now_ms), revoked_keys);

  const auto signer = decode<SignedTicket>(as_bytes(outer->signer), ticket_limits);
  if (!signer || !signer->signer.empty())
    return denied("ticket refused: its chain is not head, agent, process");
  const auto agent = in_force(checked(*signer, head_public_key, now_ms), revoked_keys);
  if (!agent) return agent.error();
  if (agent->delegated_key.empty()) return denied("ticket refused: its signer may not sign");
  auto ticket = checked(*outer, agent->delegated_key, now_ms);
  if (!ticket) return ticket;
  const Role role = ticket->principal.role;
  if (ticket->node != agent->node || (role != Role::driver && role != Role::executor)) {
    return denied("ticket refused: an agent signs only for drivers and executors on its own node");
  }
  ticket->admitted_as = agent->admitted_as;
  return ticket;
}

std::optional<std::int64_t> end_of_agent_ticket(const std::string& signed_ticket) {
  auto outer = decode<SignedTicket>(as_bytes(signed_ticket), ticket_limits);
  if (outer && !outer->signer.empty())
    outer = decode<SignedTicket>(as_bytes(outer->signer), ticket_limits);
  if (!outer) return std::nullopt;
  const auto ticket = decode<Ticket>(as_bytes(outer->ticket), ticket_limits);
  if (!ticket) return std::nullopt;
  return ticket->expires_ms;
}

ProcessId signer_of(const std::string& signed_ticket) {
  const auto outer = decode<SignedTicket>(as_bytes(signed_ticket), ticket_limits);
  if (!outer || outer->signer.empty()) return {};
  const auto signer = decode<SignedTicket>(as_bytes(outer->signer), ticket_limits);
  if (!signer) return {};
  const auto agent = decode<Ticket>(as_bytes(signer->ticket), ticket_limits);
  return agent ? agent->process : ProcessId();
}

std::string with_signer(const std::string& signed_ticket, const std::string& signer) {
  auto outer = decode<SignedTicket>(as_bytes(signed_ticket), ticket_limits);
  if (!outer || outer->signer.empty()) return signed_ticket;
  outer->signer = signer;
  return as_text(encode(*outer));
}

}  // namespace mobula::internal
