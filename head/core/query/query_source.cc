#include "head/core/query/query_source.h"

#include "head/core/head_tables.h"

namespace mobula::internal::head {

ToolReply tool_reply(std::uint64_t request, const Result<std::string>& document) {
  ToolReply reply;
  reply.request = request;
  reply.ok = document.ok();
  if (document) {
    reply.json = *document;
  } else {
    reply.code = document.error().code;
    reply.text = document.error().text;
  }
  return reply;
}

ReadStateReply state_read(std::uint64_t request, const Result<std::string>& document) {
  ReadStateReply read;
  read.request = request;
  (document ? read.json : read.error) = document ? *document : document.error().text;
  return read;
}

void answer(HeadTables& parts, const QuerySource& asker, const Result<std::string>& document,
            std::vector<TaskError> errors) {
  if (const auto* process = std::get_if<ProcessId>(&asker.who)) {
    return parts.processes.tell(*process, state_read(asker.request, document));
  }
  ToolReply reply = tool_reply(asker.request, document);
  if (document) reply.errors = std::move(errors);
  parts.commands.push_back(ReplyToTool{std::get<LinkId>(asker.who), std::move(reply)});
}

}  // namespace mobula::internal::head
