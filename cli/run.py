"""stub"""
import click
@click.command()
def run(): pass
