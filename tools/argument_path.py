#!/usr/bin/env python3
"""Checks the way of an argument from `.remote()` to the user's function: at most 12 files, and no file twice.

A file is a header with its sources. It is on the way if one of its functions receives the argument, or the record or
the bytes that hold it, and hands it on: to a function, to memory that another process reads, or to a list that the
next file takes it from. Functions that return the argument in another form to their caller, such as codecs, sessions,
and containers, are no steps. The way is that of a typed call with a value of at most 64 KiB to a running executor of
the same node.

Each row names a function and the text in its body that hands the argument on. If the code changes, the row fails; the
new way must be listed, and the count applies to it.

usage: argument_path.py [--root DIR] [--list]
  --list  print the files of each way
"""

import argparse
import re
import sys
from pathlib import Path

MOST_FILES = 12

# In the caller, after its user code; in the executor, before its user code.
SENDING = [
    ("client/engine/process_engine.h client/engine/process_engine.cc",
     [("void ProcessEngine::step(Event event)", "take(std::move(event))"),
      ("void ProcessEngine::take(Event&& event)", "core().consume(now, event, commands_)")]),
    ("client/core/client_core.h client/core/client_core.cc",
     [("void ClientCore::consume(", "std::visit([&](auto& each) { on(each); }, event)"),
      ("void on({event}& event)", "tasks_.on(event)")]),
    ("client/core/calls/tasks.h client/core/calls/tasks.cc",
     [("void Tasks::on({event}& event)", "add_task(std::move(event.call)"),
      ("void Tasks::push(", "streams_.say(stream, std::move(push))")]),
    ("client/core/calls/streams/call_streams.h client/core/calls/streams/call_streams.cc",
     [("void CallStreams::say(", "send_frames(stream, frames_)"),
      ("void CallStreams::send_frames(", "step_.emit(SendToExecutor{")]),
    ("client/engine/ring_links.h client/engine/ring_links.cc",
     [("void RingLinks::send(std::vector<Command>& commands)", "write(at->second, bytes)"),
      ("bool RingLinks::write(", "link.writer.write(frame)")]),
    ("transport/ring/ring.h transport/ring/ring_defined.h",
     [("BasicRingWriter<Memory>::write(", "header_->written.store(written_"),
      ("BasicRingReader<Memory>::read(", "copy_out(taken_")]),
    ("client/engine/callee/callee_half.h client/engine/callee/callee_half.cc",
     [("Result<bool> CalleeHalf::read(", "ring.read(record_)"),
      ("void CalleeHalf::step_with_frame(", "step(now, std::move(received_), out)"),
      ("void CalleeHalf::step(", "core_.consume(now, event, out)")]),
    ("client/executor/core/executor_core.h client/executor/core/executor_core.cc",
     [("void ExecutorCore::on(ReceivedFromCaller& event)", "on(event.caller, each)"),
      ("void ExecutorCore::on(ProcessId caller, PushCall& message)", "admit(std::move(row))"),
      ("void ExecutorCore::start(CallRow row)", "emit(std::move(run))")]),
    ("client/executor/call_runner.h client/executor/call_runner.cc",
     [("void CallRunner::take(", "push_back({std::move(*run)"),
      ("CallRunner::run_next(", "run_call(started, began, *ran)"),
      ("void CallRunner::run_call(", "run_entry(started, arguments, results)"),
      ("detail::Outcome CallRunner::run_entry(", "entry->invoker()(invocation)")]),
    ("include/mobula/detail/call.h",
     [("Outcome invoke(const Invocation& call)", "run<split, Result>(call, Parameters{}, Body(call))"),
      ("void run(const Invocation& call", "pass_all<R>(function, Incoming<P>(call.arguments[I])...)"),
      ("struct {body}", "{user_code}(std::forward<Given>(argument)...)")]),
]

# The joints between two files where the list of commands of a step, or the reader of a ring, is passed on.
JOINTS = [
    ("client/engine/process_engine.cc", "void ProcessEngine::take(Event&& event)", "rings_.send(commands_)"),
    ("client/engine/ring_links.cc", "bool RingLinks::read(",
     "hearer.read_calls(link.opened.peer, link.reader)"),
    ("client/engine/callee/process_engine_callee.cc", "bool ProcessEngine::read_calls(", "callee_->read(caller, ring)"),
    ("client/engine/callee/process_engine_callee.cc", "void ProcessEngine::carry_out(", "runner_->take(commands)"),
]

WAYS = {
    "task": [
        ("include/mobula/task.h",
         [("class Task {", "detail::submit<F, false>(detail::default_task_request(), std::forward<Args>(args)...)"),
          ("auto submit(", "target->submit_task(task_of(This::entry, request, passed"),
          ("struct TaskEntry {", "&invoke<split, Result, Parameters, FunctionBody<Result, F>>")]),
        ("client/engine/process_runtime.h client/engine/process_runtime.cc",
         [("detail::Done ProcessRuntime::submit_task(", "engine_->step(std::move(event))")])],
    "call of an actor": [
        ("include/mobula/actor.h",
         [("auto call(Args&&... args) const", ".remote(std::forward<Args>(args)...)"),
          ("auto send(Args&&... args) const", "target->call_actor(detail::actor_call_of(")]),
        ("client/engine/process_runtime.h client/engine/process_runtime.cc",
         [("detail::Done ProcessRuntime::call_actor(", "engine_->step(std::move(event))")])],
}
WORDS = {
    "task": {"event": "SubmitTask", "body": "FunctionBody {", "user_code": "F"},
    "call of an actor": {"event": "SubmitActorCall", "body": "MethodBody {", "user_code": "(self->*M)"},
}


def squeezed(text):
    return re.sub(r'\s+', "", re.sub(r'//[^\n]*', "", text))


def body_of(text, signature):
    """The text from the signature, whose white space may differ, to the brace that closes its body."""
    words = r'\s*'.join(re.escape(part) for part in re.findall(r'\w+|[^\w\s]', signature))
    for found in re.finditer(words, text):
        begin = text.find("{", found.end() - 1)
        if begin < 0 or ";" in text[found.end():begin]:
            continue  # a declaration
        depth = 0
        for at in range(begin, len(text)):
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            if depth == 0:
                return text[found.start():at + 1]
    return None


def misses(root, files, signature, hand_over):
    text = "\n".join((root / name).read_text() for name in files.split() if (root / name).is_file())
    body = body_of(text, signature)
    if body is None:
        return f"{files}: no function '{signature}' exists"
    if squeezed(hand_over) not in squeezed(body):
        return f"{files}: '{signature}' does not contain '{hand_over}'"
    return None


def check(root, name):
    def fill(text):
        for key, word in WORDS[name].items():
            text = text.replace("{" + key + "}", word)
        return text
    way = WAYS[name] + SENDING
    faults = [misses(root, files, fill(signature), fill(hand_over))
              for files, rows in way for signature, hand_over in rows]
    files = [each for each, _ in way]
    if len(files) > MOST_FILES:
        faults.append(f"the way has {len(files)} files; the limit is {MOST_FILES}")
    faults += [f"{each}: the way returns to it" for each in sorted(set(files)) if files.count(each) > 1]
    return files, [fault for fault in faults if fault]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent)
    parser.add_argument("--list", action="store_true")
    given = parser.parse_args()
    faults = [each for each in (misses(given.root, *joint) for joint in JOINTS) if each]
    for name in WAYS:
        files, found = check(given.root, name)
        faults += [f"{name}: {each}" for each in found]
        if given.list:
            print(f"{name}: {len(files)} files: " + ", ".join(each.split()[0] for each in files))
    for each in faults:
        print(f"argument_path: {each}")
    if faults:
        print("argument_path: list the way as it is now in tools/argument_path.py, in at most 12 files")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
