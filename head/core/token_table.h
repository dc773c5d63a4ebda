// Tokens: their states, and the machines that joined with one. The head knows only the public key
// of a token, so its journal and memory admit no one. Rows are in the journal.
// Thread: owner (one HeadCore).
// Units: milliseconds of the wall clock. Expiry, and tokens from the future, are judged with a
// tolerance of HeadOptions::clock_skew, because the clock may have been set.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "head/core/head_events.h"
#include "head/core/records/rows.h"

namespace mobula::internal::head {

struct HeadTables;

// Prefix of the principal that shows a join token. The id of the token follows.
inline constexpr std::string_view ticket_prefix = "ticket:";

// A revoked or expired token can leave valid tickets. Agents and executors therefore receive the
// user id "token:ID" as a revoked key (RevocationList) for as long as such tickets may be valid.
class TokenTable {
 public:
  explicit TokenTable(HeadTables& tables) : tables_(tables) {}

  void restore(const TokenRow& row);

  // Orders of tools. The argument is a JSON object, and the result is a document. A change is in
  // the journal, so the reply must wait for the journal.
  //
  // create() takes {"name", "role": "agent"|"driver"|"observer", "public_key", "expires_ms": from
  // now, 0: never}. The same key again returns the same token. Errors: already_exists for the name
  // of another valid token.
  Result<std::string> create(const std::string& argument);
  Result<std::string> revoke(const std::string& id_or_name);
  Result<std::string> list() const;
  // Removes a token that could not be made durable.
  void undo(const std::string& id);
  // Admits a machine with the join token of this principal. `argument` is {"public_key", "host"} of
  // the machine. The same key again counts as the same use. Another key is rejected, and the error
  // names the first machine.
  Result<std::string> join(const Principal& ticket, const std::string& argument);

  Result<Principal> principal_of(const std::string& public_key, std::int64_t wall_ms) const;

  // Validity and expiry of a user id. A user id that names no token is always valid and has no
  // expiry (0).
  bool in_force(const std::string& user_id) const;
  std::int64_t end_of(const std::string& user_id) const;
  // User ids that no longer admit connections and for which valid tickets may exist.
  std::vector<std::string> revoked_keys() const;

  // Notifies all agents of driver tokens that have expired.
  void tick();
  std::optional<Time> next_deadline() const;

 private:
  using Rows = std::map<std::string, TokenRow>;  // by id

  const TokenRow* row_of(const std::string& user_id) const;
  bool expired(const TokenRow& row, std::int64_t wall_ms) const;
  // Time since which the token admits no agents; 0: it still does, or it never admitted any.
  std::int64_t void_since(const TokenRow& row, std::int64_t wall_ms) const;
  bool may_have_tickets_out(const TokenRow& row, std::int64_t wall_ms) const;

  // Returns "USED", "VALID", "EXPIRED", or "REVOKED".
  std::string_view state_of(const TokenRow& row, std::int64_t wall_ms) const;
  Result<std::string> resolve(const std::string& id_or_name) const;
  Result<void> drop_ended();
  void admit(const TokenRow& row);
  void find_next_end();
  void forget_key(const std::string& public_key);
  void write(const TokenRow& row);
  std::string document_of(const TokenRow& row, const std::vector<std::string>& warnings = {}) const;

  HeadTables& tables_;
  Rows rows_;
  std::set<std::string> ended_;   // ids of tokens whose end was sent to all agents
  std::int64_t next_end_ms_ = 0;  // earliest expiry of the others, wall clock; 0: none
  // Keys of tokens and of joined machines, valid or not.
  std::map<std::string, std::string> id_of_key_;
};

}  // namespace mobula::internal::head
