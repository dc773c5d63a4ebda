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

void answer(HeadTables& tables, const QuerySource& source, const Result<std::string>& document,
            std::vector<TaskError> errors) {
  if (const auto* process = std::get_if<ProcessId>(&source.who)) {
    return tables.processes.send(*process, state_read(source.request, document));
  }
  ToolReply reply = tool_reply(source.request, document);
  if (document) reply.errors = std::move(errors);
  tables.commands.push_back(ReplyToTool{std::get<LinkId>(source.who), std::move(reply)});
}

}  // namespace mobula::internal::head
