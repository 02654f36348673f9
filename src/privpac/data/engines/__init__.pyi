from .spark import SparkUsers as SparkUsers
from .stream import StreamedUsers as StreamedUsers
