#include <mobula/detail/submit.h>

#include <array>
#include <utility>

#include <mobula/errors.h>

namespace mobula::detail {

namespace {

// Arguments as the runtime takes them. Few calls have more than eight.
class RuntimeArguments {
 public:
  RuntimeArguments(const std::shared_ptr<Runtime>& runtime, std::span<const ArgumentSource> sources)
      : sources_(sources) {
    if (sources.size() > few_.size()) many_.resize(sources.size());
    Argument* next = many_.empty() ? few_.data() : many_.data();
    first_ = next;
    for (const ArgumentSource& source : sources) {
      *next++ = {.value = source.value,
                 .object = source.ref == nullptr ? RawId{} : require_id(source.ref->get(), runtime)};
    }
  }

  std::span<const Argument> span() const { return {first_, sources_.size()}; }

  // What an argument's serializer threw comes before what the runtime made of it.
  void rethrow_failure() const {
    for (const ArgumentSource& source : sources_) {
      if (source.value != nullptr) source.value->rethrow_failure();
    }
  }

 private:
  std::span<const ArgumentSource> sources_;
  std::array<Argument, 8> few_ = {};
  std::vector<Argument> many_;
  const Argument* first_ = nullptr;
};

Anchors adopt_all(const std::shared_ptr<Runtime>& runtime, const std::vector<RawId>& ids) {
  Anchors anchors;
  anchors.reserve(ids.size());
  for (const RawId id : ids) anchors.push_back(Anchor::adopt(runtime, {RefKind::object, id}));
  return anchors;
}

Anchors require_count(Anchors anchors, const Entry& entry) {
  if (anchors.size() != static_cast<std::size_t>(entry.results())) {
    throw Error("calling " + std::string(entry.name()) + ": the runtime gave " +
                std::to_string(anchors.size()) + " refs for " + std::to_string(entry.results()) +
                " results");
  }
  return anchors;
}

}  // namespace

Anchors submit_task(const Entry& entry, const std::shared_ptr<const TaskRequest>& request,
                    std::span<const ArgumentSource> arguments) {
  check_returns(request->num_returns, entry.results());
  const auto target = runtime();
  const RuntimeArguments passed(target, arguments);
  auto answer = target->submit_task({.function = Registry::instance().key_of(entry),
                                     .function_name = entry.name(),
                                     .request = request,
                                     .arguments = passed.span(),
                                     .num_returns = entry.results()});
  if (!answer.ok()) passed.rethrow_failure();
  return require_count(adopt_all(target, std::move(answer).take()), entry);
}

std::shared_ptr<const Anchor> create_actor(const Entry& entry,
                                           const std::shared_ptr<const ActorRequest>& request,
                                           std::span<const ArgumentSource> arguments) {
  const auto target = runtime();
  const RuntimeArguments passed(target, arguments);
  auto answer = target->create_actor({.constructor = Registry::instance().key_of(entry),
                                      .class_name = entry.class_name(),
                                      .request = request,
                                      .arguments = passed.span()});
  if (!answer.ok()) passed.rethrow_failure();
  return Anchor::adopt(target, {RefKind::actor, std::move(answer).take()});
}

Anchors call_actor(const Entry& entry, const std::shared_ptr<const Anchor>& actor,
                   const std::shared_ptr<const CallRequest>& request,
                   std::span<const ArgumentSource> arguments) {
  check_returns(request->num_returns, entry.results());
  const auto target = runtime();
  const RuntimeArguments passed(target, arguments);
  auto answer = target->call_actor({.actor = require_id(actor.get(), target),
                                    .method = Registry::instance().key_of(entry),
                                    .method_name = entry.name(),
                                    .request = request,
                                    .arguments = passed.span(),
                                    .num_returns = entry.results()});
  if (!answer.ok()) passed.rethrow_failure();
  return require_count(adopt_all(target, std::move(answer).take()), entry);
}

std::shared_ptr<const Anchor> find_actor(const std::string& name, const std::string& name_space,
                                         std::string_view class_name) {
  const auto target = runtime();
  if (name.empty()) throw InvalidRequestError("get_actor: the name is empty");
  check_name("name", name);
  check_name("name_space", name_space);
  NamedActor found = target->get_actor(name, name_space).take();
  auto anchor = Anchor::adopt(target, {RefKind::actor, found.actor});
  if (found.class_name != class_name) {
    throw InvalidRequestError("get_actor: \"" + name + "\" is a " + found.class_name + ", not a " +
                              std::string(class_name) + "; ask for it by its own class");
  }
  return anchor;
}

void kill_actor(const std::shared_ptr<const Anchor>& actor, bool no_restart) {
  const auto target = runtime();
  require(target->kill(require_id(actor.get(), target), no_restart));
}

}  // namespace mobula::detail

namespace mobula {

std::vector<std::string> list_named_actors() {
  return detail::runtime()->list_named_actors().take();
}

}  // namespace mobula
