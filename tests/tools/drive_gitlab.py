#!/usr/bin/env python3
"""drive_gitlab.py URL TOKEN PROJECT TOKEN_OF_A_MAINTAINER - python-gitlab, which knows nothing of ours, on the forge of the tests.

Does what the bot does and what people do over the API, and ends with an error where an answer is not what python-gitlab
takes for GitLab's. Prints one line a step.
"""
import sys

import gitlab

BRANCH = "slicewright/judge/one"


def refused(status, act):
    """Whether `act` is refused with `status`."""
    try:
        act()
    except gitlab.exceptions.GitlabError as error:
        assert error.response_code == status, error
        return error.error_message
    raise AssertionError(f"not refused with {status}")


def forge_of(project):
    """What python-gitlab has no object for is asked for by its path."""
    return project.manager.gitlab


def main(url, token, path, maintainer):
    forge = gitlab.Gitlab(url, private_token=token)
    forge.auth()
    me = forge.user.id
    print("signed in as", forge.user.username)
    print("users", [user.username for user in forge.users.list(username="kim")])

    project = forge.projects.get(path)
    assert project.path_with_namespace == path and not project.archived
    assert project.permissions["project_access"]["access_level"] == 30
    print("default branch", project.default_branch)
    refused(404, lambda: forge.projects.get("nobody/nothing"))

    base = project.branches.get(project.default_branch).commit["id"]
    paths = [entry["path"] for entry in project.repository_tree(ref=base, recursive=True, get_all=True)]
    keyset = project.repository_tree(ref=base, recursive=True, pagination="keyset", per_page=2, iterator=True)
    assert [entry["path"] for entry in keyset] == paths
    print("tree", len(paths))
    blob = next(entry for entry in project.repository_tree(ref=base) if entry["type"] == "blob")
    assert project.repository_raw_blob(blob["id"])
    assert project.repository_archive(sha=base, format="tar.gz")[:2] == b"\x1f\x8b"

    order = {
        "branch": BRANCH,
        "start_sha": base,
        "commit_message": "One\n\nTwo",
        "author_name": "Judge",
        "author_email": "judge@example.com",
        "actions": [{"action": "create", "file_path": "judge/new.yaml", "content": "a: 1\n"}],
    }
    commit = project.commits.create(order)
    assert commit.parent_ids == [base] and commit.author_email == "judge@example.com"
    print("branch exists:", refused(400, lambda: project.commits.create(order)).split("'")[0].strip())
    again = project.commits.create({**order, "force": True, "commit_message": "Other"})
    assert project.branches.get(BRANCH).commit["id"] == again.id
    names = [branch.name for branch in project.branches.list(regex=f"^({project.default_branch}|{BRANCH})$")]
    print("branches", sorted(names))
    assert [branch.name for branch in project.branches.list(search="^slicewright/")] == [BRANCH]
    assert project.branches.list(search="^judge/") == []
    assert project.repository_merge_base([base, BRANCH])["id"] == base
    between = project.commits.list(ref_name=f"{base}..{again.id}", get_all=True)
    assert [one.id for one in between] == [again.id]
    refused(404, lambda: project.commits.get("0" * 40))
    refused(403, lambda: project.protectedbranches.list())

    wanted = {"source_branch": BRANCH, "target_branch": project.default_branch, "title": "Draft: Judge"}
    wanted["labels"] = ["a", "b"]
    request = project.mergerequests.create(wanted)
    assert request.draft and request.labels == ["a", "b"] and request.author["id"] == me
    print("another:", refused(409, lambda: project.mergerequests.create(wanted)))
    found = project.mergerequests.list(source_branch=BRANCH, state="opened", scope="all", get_all=True)
    assert [one.iid for one in found] == [request.iid]
    request.title, request.description = "Judge", "Text"
    request.save()
    assert not project.mergerequests.get(request.iid).draft
    assert request.approvals.get().approved_by == []

    note = request.notes.create({"body": "Said"})
    note.body = "Said again"
    note.save()
    for n in range(40):
        request.notes.create({"body": f"Talk {n}"})
    notes = request.notes.list(get_all=True, sort="asc", order_by="created_at")
    assert len(notes) == 41 and notes[0].body == "Said again"
    note.awardemojis.create({"name": "eyes"})
    print("twice:", refused(404, lambda: note.awardemojis.create({"name": "eyes"})))
    assert [award.user["id"] for award in note.awardemojis.list(get_all=True)] == [me]
    note.delete()
    refused(404, lambda: request.notes.get(note.id))
    print("notes", len(request.notes.list(get_all=True)))

    print("roles", [(one.username, one.access_level, one.state) for one in map(project.members_all.get, [11, 12, 13])])
    refused(404, lambda: project.members_all.get(99))
    assert forge.users.get(me).bot and not forge.users.get(12).bot
    print("token", forge.personal_access_tokens.get("self").scopes)
    kept = project.upload("judge.png", filedata=b"\x89PNG")
    print("upload", kept["markdown"])
    schedules = project.pipelineschedules.list(get_all=True)
    print("schedules", [(one.description, one.active, one.owner["username"]) for one in schedules])

    refused(403, lambda: project.hooks.list())
    as_maintainer = gitlab.Gitlab(url, private_token=maintainer).projects.get(path)
    hook = as_maintainer.hooks.list(get_all=True)[0]
    assert hook.alert_status == "executable"
    events = f"/projects/{project.id}/hooks/{hook.id}/events"
    sent = forge_of(as_maintainer).http_list(events, per_page=20, get_all=True)
    print("events", [(one["request_headers"]["Idempotency-Key"], one["response_status"]) for one in sent])
    refused(400, lambda: forge_of(as_maintainer).http_list(events, per_page=100, get_all=True))
    again = forge_of(as_maintainer).http_request("post", f"{events}/{sent[0]['id']}/resend")
    print("sent again", again.json())

    request.state_event = "close"
    request.save()
    assert project.mergerequests.get(request.iid).state == "closed"
    project.branches.delete(BRANCH)
    refused(404, lambda: project.branches.get(BRANCH))
    pushed = project.events.list(action="pushed", get_all=True)
    print("pushes", [event.push_data["action"] for event in reversed(pushed)])


main(*sys.argv[1:])
