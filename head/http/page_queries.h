// Queries of the web page beyond the lists: the wait for changes, usage, the timeline, and logs.
// They map parameters of a request to a query of the head, and its reply to a JSON document.
// Thread: any.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "protocol/messages/tools.h"

namespace mobula::internal::head {

using HttpParameters = std::multimap<std::string, std::string>;

// The state that a client has: the head's number of changes, which restarts with each epoch.
struct SeenChanges {
  std::uint64_t epoch = 0;
  std::uint64_t number = 0;
};

struct PageQuery {
  ToolRequest request;
  // Set for `changes`: the reply is held back until the head's state differs.
  std::optional<SeenChanges> seen;
};

//   changes[?since=NUMBER&epoch=EPOCH]     {epoch, number}, at once or when they differ.
//   usage[?part=nodes|gpus]                as `mobula top -o json`, or the part of a view
//   KIND?limit=N[&find=TEXT]   the first rows of nodes, jobs, actors, or placement-groups.
//   gpus?limit=N[&find=TEXT]   GPUs of the first nodes, with their largest holders.
//   status?limit=N[&find=TEXT]   the status, with the first shapes of waiting requests.
//   transfers?limit=N   the latest transfers.
//   timeline                               calls and transfers of the last minute
//   logs[?of=SUBJECT]                      names of logs
//   logs?limit=N[&find=TEXT]   the first logs: open ones, then the latest.
//   log?node_id=ID&log=NAME[&from=POSITION]   a chunk of a log; without node_id: of the head
//   log?job_id=ID[&from=OFFSET]            a chunk of the output of a submitted job
//   events?limit=N[&severity=LOWEST]       the latest events; also after=NUMBER, epoch=EPOCH
// Returns nothing for any other kind, and for lists without these parameters.
std::optional<PageQuery> page_query(const std::string& kind, const HttpParameters& parameters);

// The document for a successful reply to `request`. Bytes of the reply become members of it.
std::string page_document(const ToolRequest& request, const ToolReply& reply);

// Whether a reply to `changes` has the state that the client has.
bool is_seen(const std::string& changes_document, const SeenChanges& seen);

}  // namespace mobula::internal::head
