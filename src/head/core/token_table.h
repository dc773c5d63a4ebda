// Tokens: who was given which, what each still allows, and which machines have joined by one. Of a
// token the head knows the public key alone, so neither its journal nor its memory lets anybody in.
// Rows are in the journal. Ends are judged by the wall clock, whatever the machine has slept meanwhile,
// and allow for HeadOptions::clock_skew: the clock may have been set, or be another machine's by now. A
// token that was made in this clock's future is refused likewise. What a revoked or expired token's
// holder has signed before is made void at agents and executors by its name, "token:ID", for as long as
// such tickets may be in force (VoidKeys). Owned by one HeadCore; not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "head/core/inputs.h"
#include "head/core/rows.h"

namespace mobula::internal::head {

struct Parts;

// With the token's id behind it, the name of the principal that shows a ticket.
inline constexpr std::string_view ticket_prefix = "ticket:";

class TokenTable {
 public:
  explicit TokenTable(Parts& parts) : parts_(parts) {}

  void restore(const TokenRow& row);

  // Orders of tools; the argument is a JSON object, the answer a document. Journalled: the answer is
  // to wait for the journal.
  //
  // {"name", "role": "agent"|"driver"|"observer", "public_key", "expires_ms" from now, 0: never}. The
  // same key again is the same token. already_exists for the name of another that is in force.
  Result<std::string> create(const std::string& argument);
  Result<std::string> revoke(const std::string& id_or_name);
  Result<std::string> list() const;
  // Of one that was made and cannot be made durable.
  void undo(const std::string& id);
  // {"public_key", "host"} of a machine, by the ticket of this principal. The same key again is the
  // same use; another one is refused with who used it.
  Result<std::string> join(const Principal& ticket, const std::string& argument);

  Result<Principal> principal_of(const std::string& public_key, std::int64_t wall_ms) const;

  // Of a user id of the table of keys, which may name no token: then it is in force and has no end (0).
  bool in_force(const std::string& user_id) const;
  std::int64_t end_of(const std::string& user_id) const;
  // The user ids that let nobody in any more, and under which tickets may be out.
  std::vector<std::string> void_keys() const;

  // Looks which tokens have come to their end.
  void tick();
  std::optional<Time> next_deadline() const;

 private:
  using Rows = std::map<std::string, TokenRow>;  // by id

  const TokenRow* row_of(const std::string& user_id) const;
  bool expired(const TokenRow& row, std::int64_t wall_ms) const;
  // When it ceased to let anybody in; 0: it has not, or nobody has ever come in by it.
  std::int64_t void_since(const TokenRow& row, std::int64_t wall_ms) const;
  bool may_have_tickets_out(const TokenRow& row, std::int64_t wall_ms) const;

  // "USED", "VALID", "EXPIRED", "REVOKED".
  std::string_view state_of(const TokenRow& row, std::int64_t wall_ms) const;
  Result<std::string> resolve(const std::string& id_or_name) const;
  Result<void> make_room();
  void admit(const TokenRow& row);
  void find_next_end();
  void forget_key(const std::string& public_key);
  void write(const TokenRow& row);
  std::string document_of(const TokenRow& row, const std::vector<std::string>& warnings = {}) const;

  Parts& parts_;
  Rows rows_;
  std::set<std::string> ended_;  // ids of those whose end everybody was told of
  std::int64_t next_end_ms_ = 0;  // of the others, by the wall clock; 0: none
  std::map<std::string, std::string> id_of_key_;  // tokens' keys and members', in force or not
};

}  // namespace mobula::internal::head
