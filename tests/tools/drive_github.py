#!/usr/bin/env python3
"""drive_github.py URL TOKEN OWNER/REPO - githubkit, which knows nothing of ours, on the forge of the tests.

Does what the bot does over the API, and ends with an error where an answer is not what githubkit's models, made from
GitHub's own description, take for GitHub's. Prints one line a step.
"""
import base64
import sys

from githubkit import GitHub, TokenAuthStrategy
from githubkit.exception import GraphQLFailed, RequestFailed

BRANCH = "slicewright/judge/one"


def refused(status, act):
    """What was said when `act` was refused with `status`."""
    try:
        act()
    except RequestFailed as error:
        assert error.response.status_code == status, error
        return error.response.json()["message"]
    raise AssertionError(f"not refused with {status}")


def main(url, token, path):
    owner, repo = path.split("/")
    forge = GitHub(TokenAuthStrategy(token), base_url=f"{url}/api/v3", http_cache=False)
    rest = forge.rest
    at = {"owner": owner, "repo": repo}
    print("signed in as", rest.users.get_authenticated().parsed_data.login)
    repository = rest.repos.get(**at).parsed_data
    assert repository.full_name == path and not repository.archived and repository.permissions.push
    main_branch = repository.default_branch
    print("default branch", main_branch)
    print("nothing:", refused(404, lambda: rest.repos.get("nobody", "nothing")))

    base = rest.git.get_ref(**at, ref=f"heads/{main_branch}").parsed_data.object_.sha
    tree = rest.git.get_tree(**at, tree_sha=base, recursive="1").parsed_data
    print("tree", len(tree.tree), tree.truncated)
    entry = next(entry for entry in tree.tree if entry.type == "blob")
    blob = rest.git.get_blob(**at, file_sha=entry.sha).parsed_data
    assert len(base64.b64decode(blob.content)) == entry.size

    made = rest.git.create_tree(
        **at, base_tree=base, tree=[{"path": "judge/new.yaml", "mode": "100644", "type": "blob", "content": "a: 1\n"}]
    ).parsed_data
    commit = rest.git.create_commit(**at, message="One\n\nTwo", tree=made.sha, parents=[base]).parsed_data
    assert [parent.sha for parent in commit.parents] == [base]
    mutation = """mutation($input: UpdateRefsInput!) { updateRefs(input: $input) { clientMutationId } }"""
    update = {"name": f"refs/heads/{BRANCH}", "beforeOid": "0" * 40, "afterOid": commit.sha, "force": True}
    order = {"input": {"repositoryId": repository.node_id, "refUpdates": [update]}}
    forge.graphql(mutation, order)
    try:
        forge.graphql(mutation, order)
        raise AssertionError("a branch was made twice")
    except GraphQLFailed as error:
        print("branch exists:", error.response.errors[0].message)
    assert rest.git.get_ref(**at, ref=f"heads/{BRANCH}").parsed_data.object_.sha == commit.sha
    compared = rest.repos.compare_commits(**at, basehead=f"{base}...{commit.sha}").parsed_data
    assert compared.merge_base_commit.sha == base and [one.sha for one in compared.commits] == [commit.sha]

    wanted = {"title": "Judge", "head": BRANCH, "base": main_branch, "body": "Text", "draft": True}
    pull = rest.pulls.create(**at, data=wanted).parsed_data
    assert pull.draft and pull.state == "open" and pull.head.sha == commit.sha
    print("another:", refused(422, lambda: rest.pulls.create(**at, data=wanted)))
    found = rest.pulls.list(**at, state="all", head=f"{owner}:{BRANCH}", per_page=100).parsed_data
    assert [one.number for one in found] == [pull.number]
    rest.pulls.update(**at, pull_number=pull.number, data={"title": "Judge, again"})
    assert rest.pulls.get(**at, pull_number=pull.number).parsed_data.title == "Judge, again"
    assert rest.pulls.list_reviews(**at, pull_number=pull.number).parsed_data == []

    said = rest.issues.create_comment(**at, issue_number=pull.number, body="Said").parsed_data
    rest.issues.update_comment(**at, comment_id=said.id, body="Said again")
    comments = rest.issues.list_comments(**at, issue_number=pull.number, per_page=100).parsed_data
    print("comments", [comment.body for comment in comments])
    first = rest.reactions.create_for_issue_comment(**at, comment_id=said.id, content="eyes")
    second = rest.reactions.create_for_issue_comment(**at, comment_id=said.id, content="eyes")
    assert [first.status_code, second.status_code] == [201, 200] and second.parsed_data.content == "eyes"
    rest.issues.delete_comment(**at, comment_id=said.id)
    roles = {}
    for login in ["robin", "kim", "alex"]:
        may = rest.repos.get_collaborator_permission_level(**at, username=login).parsed_data
        assert may.user.login == login
        roles[login] = (may.permission, may.role_name)
    print("roles", roles)
    print("nobody:", refused(404, lambda: rest.repos.get_collaborator_permission_level(**at, username="nobody")))

    hook = rest.repos.list_webhooks(**at).parsed_data[0]
    assert hook.active and hook.last_response.code == 502
    deliveries = rest.repos.list_webhook_deliveries(**at, hook_id=hook.id, per_page=1)
    (last,) = deliveries.parsed_data
    cursor = deliveries.raw_response.links["next"]["url"].rsplit("cursor=", 1)[1]
    (older,) = rest.repos.list_webhook_deliveries(**at, hook_id=hook.id, per_page=1, cursor=cursor).parsed_data
    print("deliveries", [(one.guid, one.event, one.status_code, one.redelivery) for one in [older, last]])
    rest.repos.redeliver_webhook_delivery(**at, hook_id=hook.id, delivery_id=last.id)
    again = rest.repos.list_webhook_deliveries(**at, hook_id=hook.id).parsed_data[0]
    assert again.redelivery and again.guid == last.guid and again.id != last.id
    closed = rest.pulls.update(**at, pull_number=pull.number, data={"state": "closed"}).parsed_data
    print("closed", closed.state, closed.merged)
    rest.issues.create_label(**at, name="gpu")
    # As they come: githubkit's models of labels are those of a later version than the one spoken here.
    labels = rest.issues.add_labels(**at, issue_number=pull.number, data={"labels": ["gpu"]}).json()
    print("labels", [label["name"] for label in labels])
    assert rest.issues.remove_label(**at, issue_number=pull.number, name="gpu").json() == []
    refused(404, lambda: rest.issues.remove_label(**at, issue_number=pull.number, name="gpu"))

    below = rest.git.list_matching_refs(**at, ref="heads/slicewright/").parsed_data
    assert [one.ref for one in below] == [f"refs/heads/{pull.head.ref}"], below
    kim = rest.users.get_by_username("kim").parsed_data
    assert rest.users.get_by_id(kim.id).parsed_data.login == "kim"
    refused(404, lambda: rest.users.get_by_id(99))


if __name__ == "__main__":
    main(*sys.argv[1:])
