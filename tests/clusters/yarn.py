"""YARN on loopback: a resource manager and a node manager in one JVM, as Hadoop's own tests start them.

    python -m tests.clusters.yarn FOLDER JAR...

Writes FOLDER/conf/yarn-site.xml, which is what HADOOP_CONF_DIR needs, and runs until its standard input ends.
"""

import os
import sys
from pathlib import Path

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from dcrec_spark.spark.java import ensure_java

SPARK_JARS = Path(pyspark.__file__).parent / "jars"
SETTINGS = {
    "yarn.nodemanager.resource.memory-mb": "4096",
    "yarn.nodemanager.resource.cpu-vcores": "4",
    "yarn.scheduler.minimum-allocation-mb": "256",
    "yarn.nodemanager.vmem-check-enabled": "false",
    "yarn.nodemanager.pmem-check-enabled": "false",
    "yarn.resourcemanager.hostname": "localhost",
    # One queue for everybody, whose driver may take most of it.
    "yarn.scheduler.capacity.root.queues": "default",
    "yarn.scheduler.capacity.root.default.capacity": "100",
    "yarn.scheduler.capacity.maximum-am-resource-percent": "0.7",
    # The disks of a busy machine may be nearly full.
    "yarn.nodemanager.disk-health-checker.enable": "false",
}


def main(folder: Path, jars: list[str]) -> None:
    path = [*jars, f"{SPARK_JARS}/*"]  # Hadoop's client is one of Spark's jars
    java = str(ensure_java().path / "bin" / "java")
    port = launch_gateway(
        classpath=os.pathsep.join(path),
        java_path=java,
        javaopts=[
            "-Xmx512m",
            "-XX:+UseSerialGC",
            "--add-opens=java.base/java.lang=ALL-UNNAMED",
            f"-Dtest.build.data={folder}",
            f"-Djava.io.tmpdir={folder}",
        ],
        die_on_exit=True,
        redirect_stdout=sys.stderr,
        redirect_stderr=sys.stderr,
        cwd=str(folder),
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auto_convert=True))
    jvm = gateway.jvm
    conf = jvm.org.apache.hadoop.yarn.conf.YarnConfiguration()
    for name, value in SETTINGS.items():
        conf.set(name, value)
    cluster = jvm.org.apache.hadoop.yarn.server.MiniYARNCluster("dcrec", 1, 1, 1)
    cluster.init(conf)
    cluster.start()
    (folder / "conf").mkdir(exist_ok=True)
    stream = jvm.java.io.FileOutputStream(str(folder / "conf" / "yarn-site.xml"))
    cluster.getConfig().writeXml(stream)
    stream.close()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    sys.stdin.read()
    cluster.stop()
    gateway.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
