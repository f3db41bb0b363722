"""A store with users and passwords, moto's own, in the environment of object stores; it ends with its input.

It prints its port and the key and password of the only user, who may do everything. There is a bucket "mine",
and one, "versions", that keeps every version.
"""

from __future__ import annotations

import json
import sys
import threading
import urllib.request

import boto3

from hyperslab.measuring.object_store.moto_server import ready

EVERYTHING = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}


def main() -> None:
    """Run the command."""
    server = ready()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    endpoint = f"http://127.0.0.1:{server.port}"
    nobody = {"aws_access_key_id": "nobody", "aws_secret_access_key": "nothing"}
    given = {"endpoint_url": endpoint, "region_name": "us-east-1", **nobody}
    client = boto3.client("s3", **given)
    for bucket in ("mine", "versions"):
        client.create_bucket(Bucket=bucket)
    client.put_bucket_versioning(Bucket="versions", VersioningConfiguration={"Status": "Enabled"})
    users = boto3.client("iam", **given)
    users.create_user(UserName="tester")
    users.put_user_policy(UserName="tester", PolicyName="all", PolicyDocument=json.dumps(EVERYTHING))
    key = users.create_access_key(UserName="tester")["AccessKey"]
    # From now on requests without a right signature are refused.
    asked = urllib.request.Request(
        f"{endpoint}/moto-api/reset-auth", data=b"0", method="POST", headers={"Content-Type": "text/plain"}
    )
    urllib.request.urlopen(asked).close()
    print(json.dumps({"port": server.port, "key": key["AccessKeyId"], "secret": key["SecretAccessKey"]}))
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
