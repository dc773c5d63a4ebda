// Keys of a head, which its first start creates and its directory keeps: the CURVE key pair, the
// key pair that signs tickets, and the key files for machines, operators, and observers.
// Thread: any. Values for one start.
#pragma once

#include <string>

#include "base/result.h"
#include "protocol/program/cluster_files.h"
#include "protocol/tickets/ticket.h"
#include "transport/bus/curve.h"
#include "transport/bus/zap.h"

namespace mobula::internal::head {

struct HeadKeys {
  CurveKeys curve;
  SigningKeys signing;
  KeyFile join;          // `<directory>/<cluster>.key`, role agent
  KeyFile operator_key;  // `<directory>/head/operator.key`, role operator
  KeyFile observer_key;  // `<directory>/head/observer.key`, role observer: for the HTTP pages

  // Reads existing keys and creates missing ones. Errors name the file. Replaces a key file that
  // was created for the keys of another head.
  static Result<HeadKeys> load_or_make(const std::string& directory, const std::string& cluster);

  // Admits the public keys of the key files, each with its role.
  Result<void> admit(AllowTable& table) const;
};

// Returns lower-case hexadecimal digits, the form of signing keys in key files.
std::string hex_of_key(const std::string& bytes);

}  // namespace mobula::internal::head
